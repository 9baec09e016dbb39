# The guest's script. Kernel arguments: loss=PERCENT messages=COUNT seconds=MAX [part=OF_A_NAME] [begins=kernel]. Namespace `near` holds Festina; in `far`, `tunnel` hands its packets
# to the kernel's SCTP, with which `echo` answers. Netem delays and loses between the two.
argument() { sed -n "s/.*\b$1=\([^ ]*\).*/\1/p" /proc/cmdline; }
loss=$(argument loss); messages=$(argument messages); seconds=$(argument seconds); part=$(argument part); begins=$(argument begins)
ip netns add near; ip netns add far
ip link add v0 netns near type veth peer name v0 netns far
ip -n near addr add 10.0.0.1/24 dev v0; ip -n far addr add 10.0.0.2/24 dev v0
for side in near far; do
    ip -n $side link set lo up; ip -n $side link set v0 up
    ip netns exec $side tc qdisc add dev v0 root netem limit 100000 delay 50ms loss "$loss%"
done
for setting in prsctp_enable reconf_enable intl_enable; do
    echo 1 | ip netns exec far tee /proc/sys/net/sctp/$setting >/dev/null
done
ip netns exec far tunnel 10.0.0.1 &
sleep 1
ip -n far addr add 10.1.0.2/24 dev sctp0; ip -n far link set sctp0 up mtu 1400
echo "KERNEL $(uname -r)"
if [ "$begins" = kernel ]; then
    ip netns exec near policies accept "$loss" "$messages" "$seconds" $part &
    festina=$!
    sleep 1
    ip netns exec far echo-peer 10.1.0.2 10.1.0.1 &
    wait $festina
else
    ip netns exec far echo-peer &
    sleep 1
    ip netns exec near policies 10.0.0.2:9899 "$loss" "$messages" "$seconds" $part
fi
