# The guest's script for `script=failover`. Kernel arguments: loss=PERCENT messages=COUNT seconds=MAX rounds=COUNT. Hosts `near` and `far` have
# two networks of 50 ms each way; the first fails for 3 s while both ends send 100 bytes every 50 ms. Festina is in `near`. The kernel speaks SCTP
# over UDP (RFC 6951) with it, and over IP with itself.
argument() { sed -n "s/.*\b$1=\([^ ]*\).*/\1/p" /proc/cmdline; }
loss=$(argument loss); messages=$(argument messages); seconds=$(argument seconds); rounds=$(argument rounds)
at() { side=$1; shift; ip netns exec $side "$@"; }
netem() { for side in near far; do at $side tc qdisc $1 dev v$2 root netem limit 100000 delay 50ms loss $3%; done; }
# A setting of the kernel's SCTP on one host: namespace, name, value.
setting() { echo $3 | at $1 tee /proc/sys/net/sctp/$2 >/dev/null; }

ip netns add near; ip netns add far
for network in 0 1; do
    ip link add v$network netns near type veth peer name v$network netns far
    ip -n near addr add 10.0.$network.1/24 dev v$network; ip -n far addr add 10.0.$network.2/24 dev v$network
    for side in near far; do ip -n $side link set lo up; ip -n $side link set v$network up; done
    # Or the kernel hands several packets of SCTP over UDP to the device as one, whose checksum no veth fills in.
    for side in near far; do ip -n $side link set v$network gso_max_size 1400 gso_max_segs 1; done
    netem add $network "$loss"
done
near=10.0.0.1,10.0.1.1 far=10.0.0.2,10.0.1.2
plan="$messages 50"

# Name, host of the server, command of the server, host of the client, command of the client. Prints the longest delay of a message in each direction.
failover() {
    round=0
    while [ $round -lt $rounds ]; do
        at $2 timeout $seconds $3 >/run/server 2>&1 & server=$!
        sleep 1
        at $4 timeout $seconds $5 >/run/client 2>&1 & client=$!
        until [ -s /run/client ]; do sleep 0.1; done
        sleep 5; netem change 0 100; sleep 3; netem change 0 "$loss"
        wait $client; wait $server
        server=$(sed -n 's/^OK.*longest_ms=//p' /run/server) client=$(sed -n 's/^OK.*longest_ms=//p' /run/client)
        verdict="failed: $(cat /run/server /run/client)"
        [ -z "$server" ] || [ -z "$client" ] || verdict=ok
        echo "RESULT,$1,$loss,$client,$server,$verdict"
        round=$((round + 1))
        sleep 20
    done
}
echo "KERNEL $(uname -r), pf_enable $(cat /proc/sys/net/sctp/pf_enable), pf_retrans $(cat /proc/sys/net/sctp/pf_retrans), rto_min $(cat /proc/sys/net/sctp/rto_min)"
echo "RESULT,client and server,loss_percent,longest_ms_to_client,longest_ms_to_server,verdict"
failover "linux and linux" far "failover-peer server $far 10.0.0.1 $plan" near "failover-peer client $near 10.0.0.2 $plan"
for side in near far; do setting $side pf_enable 0; done
failover "linux and linux without pf" far "failover-peer server $far 10.0.0.1 $plan" near "failover-peer client $near 10.0.0.2 $plan"
setting far pf_enable 1
setting far encap_port 9899; setting far udp_port 9899
failover "festina and linux" far "failover-peer server $far 10.0.0.1 $plan" near "failover client $near 10.0.0.2 $plan"
failover "linux and festina" near "failover server $near 10.0.0.2 $plan" far "failover-peer client $far 10.0.0.1 $plan"
