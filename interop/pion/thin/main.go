// Command pion-thin sends messages between two pion/sctp associations over a simulated path in virtual time.
// Input and output are described in ../../README.md.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/logging"
	"github.com/pion/sctp"
)

const (
	messageBytes = 100
	// Time on the wire after the last delivery, for acknowledgements and needless retransmissions.
	tail = 2 * time.Second
	// Time without a delivery after which a connection counts as stalled.
	stall = 120 * time.Second
	// Time between two checks whether everything has been delivered.
	poll = time.Second
)

// plan describes one connection.
type plan struct {
	RoundTrip time.Duration `json:"round_trip_ns"`
	// Interval between two writes; 0 for a single message whose delay includes the handshake.
	Interval time.Duration `json:"interval_ns"`
	Messages int           `json:"messages"`
	// Offset of the first write from the end of the handshake.
	Offset time.Duration `json:"offset_ns"`
	// Lost has a character for each packet there and back: 1 if it is lost.
	Lost [2]string `json:"lost"`
	// RTOMax and DelayedAck override pion's defaults if they are above 0.
	RTOMax     float64       `json:"rto_max_ms"`
	DelayedAck time.Duration `json:"delayed_ack_ns"`
}

// result is the outcome of a connection.
type result struct {
	Packets [2]uint64 `json:"packets"`
	Bytes   [2]uint64 `json:"bytes"`
	// Delays in the order of the writes; -1 for a message that never arrived.
	Delays  []time.Duration `json:"delays_ns"`
	Failure string          `json:"failure"`
}

// pipe is one direction of the path.
type pipe struct {
	delay time.Duration
	queue chan packet
	to    *end

	lock     sync.Mutex
	impaired bool
	lost     string
	packets  uint64
	bytes    uint64
	excess   bool
}

type packet struct {
	at   time.Time
	data []byte
}

func (p *pipe) put(data []byte) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if p.impaired {
		index := p.packets
		p.packets++
		p.bytes += uint64(len(data))
		if index >= uint64(len(p.lost)) {
			p.excess = true
			return
		}
		if p.lost[index] == '1' {
			return
		}
	}
	p.queue <- packet{time.Now().Add(p.delay), append([]byte(nil), data...)}
}

func (p *pipe) impair() {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.impaired = true
}

// carry delivers packets in order until the queue is closed.
func (p *pipe) carry() {
	for next := range p.queue {
		time.Sleep(time.Until(next.at))
		select {
		case p.to.incoming <- next.data:
		case <-p.to.closed:
		}
	}
}

// end is an association's connection to the path.
type end struct {
	out      *pipe
	incoming chan []byte
	closed   chan struct{}
	once     sync.Once
}

func (e *end) Read(buffer []byte) (int, error) {
	select {
	case <-e.closed:
		return 0, net.ErrClosed
	case data := <-e.incoming:
		return copy(buffer, data), nil
	}
}

func (e *end) Write(data []byte) (int, error) {
	select {
	case <-e.closed:
		return 0, net.ErrClosed
	default:
		e.out.put(data)
		return len(data), nil
	}
}

func (e *end) Close() error {
	e.once.Do(func() { close(e.closed) })
	return nil
}

func (e *end) LocalAddr() net.Addr              { return &net.UDPAddr{} }
func (e *end) RemoteAddr() net.Addr             { return &net.UDPAddr{} }
func (e *end) SetDeadline(time.Time) error      { return nil }
func (e *end) SetReadDeadline(time.Time) error  { return nil }
func (e *end) SetWriteDeadline(time.Time) error { return nil }

// connection is a pair of associations with the path between them.
type connection struct {
	plan  plan
	pipes [2]*pipe
	ends  [2]*end
	// By side: the client's association, then the server's.
	associations [2]*sctp.Association
	errors       chan error

	lock      sync.Mutex
	written   []time.Time
	delays    []time.Duration
	delivered int
	progress  time.Time
	done      chan struct{}
}

func newConnection(p plan) *connection {
	c := &connection{plan: p, errors: make(chan error, 4), done: make(chan struct{}), progress: time.Now()}
	for side := range c.ends {
		c.pipes[side] = &pipe{delay: p.RoundTrip / 2, queue: make(chan packet, 1<<16), lost: p.Lost[side]}
		c.ends[side] = &end{out: c.pipes[side], incoming: make(chan []byte, 1<<12), closed: make(chan struct{})}
	}
	c.pipes[0].to, c.pipes[1].to = c.ends[1], c.ends[0]
	c.delays = make([]time.Duration, p.Messages)
	for index := range c.delays {
		c.delays[index] = -1
	}
	return c
}

func (c *connection) options(side int) []sctp.AssociationOption {
	quiet := &logging.DefaultLoggerFactory{Writer: os.Stderr, DefaultLogLevel: logging.LogLevelDisabled}
	options := []sctp.AssociationOption{sctp.WithNetConn(c.ends[side]), sctp.WithLoggerFactory(quiet)}
	if c.plan.RTOMax > 0 {
		options = append(options, sctp.WithRTOMax(c.plan.RTOMax))
	}
	if c.plan.DelayedAck > 0 {
		options = append(options, sctp.WithRACKOptions(sctp.WithRackWCDelAck(c.plan.DelayedAck)))
	}
	return options
}

func (c *connection) connect() error {
	served := make(chan error, 1)
	go func() {
		var options []sctp.ServerOption
		for _, option := range c.options(1) {
			options = append(options, option)
		}
		association, err := sctp.ServerWithOptions(options...)
		c.associations[1] = association
		served <- err
		if err == nil {
			c.receive(association)
		}
	}()
	var options []sctp.ClientOption
	for _, option := range c.options(0) {
		options = append(options, option)
	}
	association, err := sctp.ClientWithOptions(options...)
	c.associations[0] = association
	if err != nil {
		_ = c.ends[1].Close()
		<-served
		return err
	}
	return <-served
}

// receive notes each message that the server's association delivers, until that ends.
func (c *connection) receive(association *sctp.Association) {
	stream, err := association.AcceptStream()
	if err != nil {
		return
	}
	data := make([]byte, 1<<16)
	for {
		length, _, err := stream.ReadSCTP(data)
		if err != nil {
			return
		}
		if err := c.deliver(data[:length]); err != nil {
			c.errors <- err
			return
		}
	}
}

func (c *connection) deliver(data []byte) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	if len(data) != messageBytes {
		return fmt.Errorf("a message of %d bytes arrived", len(data))
	}
	index := binary.BigEndian.Uint64(data)
	if index != uint64(c.delivered) || c.delivered >= len(c.written) {
		return fmt.Errorf("message %d arrived after %d others", index, c.delivered)
	}
	c.delays[index] = time.Since(c.written[index])
	c.delivered++
	c.progress = time.Now()
	if c.delivered == c.plan.Messages {
		close(c.done)
	}
	return nil
}

// write notes the instant of a write and returns the message.
func (c *connection) write(at time.Time) []byte {
	c.lock.Lock()
	defer c.lock.Unlock()
	data := make([]byte, messageBytes)
	binary.BigEndian.PutUint64(data, uint64(len(c.written)))
	c.written = append(c.written, at)
	c.progress = time.Now()
	return data
}

func (c *connection) impair() {
	for _, pipe := range c.pipes {
		pipe.impair()
	}
}

// stream writes all messages and waits until they have been delivered.
func (c *connection) stream() error {
	first := c.plan.Interval == 0
	begin := time.Now()
	var message []byte
	if first {
		c.impair()
		message = c.write(begin)
	}
	if err := c.connect(); err != nil {
		return err
	}
	stream, err := c.associations[0].OpenStream(0, sctp.PayloadTypeWebRTCBinary)
	if err != nil {
		return err
	}
	if first {
		if _, err := stream.WriteSCTP(message, sctp.PayloadTypeWebRTCBinary); err != nil {
			return err
		}
		return c.wait()
	}
	c.impair()
	next := time.Now().Add(c.plan.Offset)
	for range c.plan.Messages {
		time.Sleep(time.Until(next))
		if _, err := stream.WriteSCTP(c.write(next), sctp.PayloadTypeWebRTCBinary); err != nil {
			return err
		}
		next = next.Add(c.plan.Interval)
	}
	if err := c.wait(); err != nil {
		return err
	}
	time.Sleep(tail)
	return nil
}

func (c *connection) wait() error {
	for {
		select {
		case <-c.done:
			return nil
		case err := <-c.errors:
			return err
		case <-time.After(poll):
		}
		c.lock.Lock()
		stalled := time.Since(c.progress) > stall
		c.lock.Unlock()
		if stalled {
			return fmt.Errorf("nothing delivered for %.0f s", stall.Seconds())
		}
	}
}

// result sums up the connection before it is taken down.
func (c *connection) result(err error) result {
	c.lock.Lock()
	defer c.lock.Unlock()
	r := result{Delays: c.delays[:len(c.written)]}
	if err != nil {
		r.Failure = err.Error()
	}
	for side, pipe := range c.pipes {
		pipe.lock.Lock()
		r.Packets[side], r.Bytes[side] = pipe.packets, pipe.bytes
		if pipe.excess {
			r.Failure = "more packets than losses were drawn for"
		}
		pipe.lock.Unlock()
	}
	return r
}

func (c *connection) close() {
	for side, association := range c.associations {
		_ = c.ends[side].Close()
		if association != nil {
			_ = association.Close()
		}
	}
	for _, pipe := range c.pipes {
		pipe.lock.Lock()
		close(pipe.queue)
		pipe.lock.Unlock()
	}
}

func run(t *testing.T, p plan) (r result) {
	synctest.Test(t, func(*testing.T) {
		c := newConnection(p)
		var carrying sync.WaitGroup
		for _, pipe := range c.pipes {
			carrying.Go(pipe.carry)
		}
		r = c.result(c.stream())
		c.close()
		carrying.Wait()
	})
	return r
}

func serve(t *testing.T) {
	input, output := json.NewDecoder(bufio.NewReader(os.Stdin)), json.NewEncoder(os.Stdout)
	for input.More() {
		var p plan
		err := input.Decode(&p)
		if err == nil {
			err = output.Encode(run(t, p))
		}
		if err != nil {
			t.Error(err)
			return
		}
	}
}

func main() {
	// The virtual clock of testing/synctest exists only within a test.
	everything := func(string, string) (bool, error) { return true, nil }
	testing.Main(everything, []testing.InternalTest{{Name: "thin", F: serve}}, nil, nil)
}
