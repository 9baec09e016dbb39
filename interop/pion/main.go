// Command pion-peer is an SCTP peer for interoperability tests: pion/sctp over a UDP socket on the loopback interface.
// What it does, its arguments and its output are described in ../README.md.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/logging"
	"github.com/pion/sctp"
)

const (
	streams              = 4
	firstUnorderedStream = 4
	messageBytesMax      = 2 << 20
	outstandingBytesMax  = 128 << 10
	timeLimit            = 600 * time.Second
	shutdownLimit        = 10 * time.Second
	// Whoever echoes this closes the stream, which resets its half.
	closeText = "close"
)

// udpPeer is a UDP socket as a connection with whoever sends the first datagram.
type udpPeer struct {
	*net.UDPConn
	remote atomic.Pointer[net.UDPAddr]
}

func (p *udpPeer) Read(data []byte) (int, error) {
	length, from, err := p.ReadFromUDP(data)
	if err == nil {
		p.remote.CompareAndSwap(nil, from)
	}
	return length, err
}

func (p *udpPeer) Write(data []byte) (int, error) {
	remote := p.remote.Load()
	if remote == nil {
		return 0, errors.New("the peer is not known yet")
	}
	return p.WriteToUDP(data, remote)
}

func listen(port int) (*udpPeer, error) {
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return nil, err
	}
	// Room for a whole window: what the kernel drops here is lost for both sides.
	return &udpPeer{UDPConn: socket}, socket.SetReadBuffer(2 * messageBytesMax)
}

func config(connection net.Conn) sctp.Config {
	return sctp.Config{
		NetConn:              connection,
		LoggerFactory:        &logging.DefaultLoggerFactory{Writer: os.Stderr, DefaultLogLevel: logging.LogLevelError},
		MaxReceiveBufferSize: 2 * messageBytesMax,
		MaxMessageSize:       messageBytesMax,
	}
}

// setMode tells the mode of a stream's messages from its number, for pion does not tell the mode of a received message.
func setMode(stream *sctp.Stream) {
	unordered := stream.StreamIdentifier() >= firstUnorderedStream
	stream.SetReliabilityParams(unordered, sctp.ReliabilityTypeReliable, 0)
}

func serve(port int) (int, error) {
	connection, err := listen(port)
	if err != nil {
		return 0, err
	}
	fmt.Printf("LISTENING %d\n", connection.LocalAddr().(*net.UDPAddr).Port)
	association, err := sctp.Server(config(connection))
	if err != nil {
		return 0, err
	}
	var echoed atomic.Int64
	var echoing sync.WaitGroup
	failures := make(chan error, 2*streams)
	for {
		stream, err := association.AcceptStream()
		if err != nil {
			break // The client has shut down.
		}
		setMode(stream)
		echoing.Add(1)
		go func() {
			defer echoing.Done()
			if err := echo(stream, &echoed); err != nil {
				failures <- err
			}
		}()
	}
	echoing.Wait()
	select {
	case err := <-failures:
		return 0, err
	default:
		return int(echoed.Load()), nil
	}
}

func echo(stream *sctp.Stream, echoed *atomic.Int64) error {
	data := make([]byte, messageBytesMax)
	for {
		length, ppid, err := stream.ReadSCTP(data)
		// The client has reset its half of the stream, or a graceful shutdown has closed the socket under it. Nothing more leaves in this
		// direction; where the association lives, this half is reset in return.
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
			_ = stream.Close()
			return nil
		}
		if err != nil {
			return err
		}
		if ppid != sctp.PayloadTypeWebRTCBinary {
			return fmt.Errorf("payload protocol identifier %d", ppid)
		}
		if _, err := stream.WriteSCTP(data[:length], ppid); err != nil {
			return err
		}
		echoed.Add(1)
		if string(data[:length]) == closeText {
			if err := stream.Close(); err != nil {
				return err
			}
		}
	}
}

type plan struct {
	count     int
	sizes     []int
	unordered bool
}

func (p *plan) message(index int) []byte {
	data := make([]byte, p.sizes[index%len(p.sizes)])
	for i := range data {
		data[i] = byte(index*31 + i*7 + i>>8)
	}
	return data
}

func (p *plan) stream(index int) uint16 {
	if p.unordered {
		return uint16(index%streams + firstUnorderedStream)
	}
	return uint16(index % streams)
}

type arrival struct {
	stream uint16
	data   []byte
	err    error
}

func drive(port int, plan *plan) (int, error) {
	connection, err := listen(0)
	if err != nil {
		return 0, err
	}
	connection.remote.Store(&net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	association, err := sctp.Client(config(connection))
	if err != nil {
		return 0, err
	}
	open, arrivals, err := openStreams(association, plan)
	if err != nil {
		return 0, err
	}
	// Messages under way by stream, oldest first.
	waiting := make(map[uint16][][]byte)
	sent, outstanding := 0, 0
	for returned := 0; returned < plan.count; returned++ {
		for sent < plan.count {
			message := plan.message(sent)
			if sent > returned && outstanding+len(message) > outstandingBytesMax {
				break
			}
			stream := plan.stream(sent)
			if _, err := open[stream].WriteSCTP(message, sctp.PayloadTypeWebRTCBinary); err != nil {
				return 0, err
			}
			waiting[stream] = append(waiting[stream], message)
			outstanding += len(message)
			sent++
		}
		echo := <-arrivals
		if echo.err != nil {
			return 0, fmt.Errorf("after %d of %d echoes: %w", returned, plan.count, echo.err)
		}
		if waiting[echo.stream], err = withoutMatch(waiting[echo.stream], echo, plan.unordered); err != nil {
			return 0, err
		}
		outstanding -= len(echo.data)
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdownLimit)
	defer cancel()
	return plan.count, association.Shutdown(ctx)
}

func openStreams(association *sctp.Association, plan *plan) (map[uint16]*sctp.Stream, <-chan arrival, error) {
	open := make(map[uint16]*sctp.Stream)
	arrivals := make(chan arrival, streams)
	for index := range streams {
		stream, err := association.OpenStream(plan.stream(index), sctp.PayloadTypeWebRTCBinary)
		if err != nil {
			return nil, nil, err
		}
		setMode(stream)
		open[stream.StreamIdentifier()] = stream
		go func() {
			data := make([]byte, messageBytesMax)
			for {
				length, _, err := stream.ReadSCTP(data)
				arrivals <- arrival{stream.StreamIdentifier(), bytes.Clone(data[:length]), err}
				if err != nil {
					return
				}
			}
		}()
	}
	return open, arrivals, nil
}

// withoutMatch removes the message that an echo answers: the oldest of its stream, or any if the stream is unordered.
func withoutMatch(waiting [][]byte, echo arrival, unordered bool) ([][]byte, error) {
	for index, message := range waiting {
		if bytes.Equal(message, echo.data) {
			return append(waiting[:index:index], waiting[index+1:]...), nil
		}
		if !unordered {
			break
		}
	}
	return nil, fmt.Errorf("an echo of %d bytes on stream %d is wrong", len(echo.data), echo.stream)
}

func run(arguments []string) (int, error) {
	usage := errors.New("usage: pion-peer server PORT | client PORT COUNT SIZES ordered|unordered")
	if len(arguments) < 2 {
		return 0, usage
	}
	port, err := strconv.ParseUint(arguments[1], 10, 16)
	if err != nil {
		return 0, err
	}
	switch {
	case arguments[0] == "server" && len(arguments) == 2:
		return serve(int(port))
	case arguments[0] == "client" && len(arguments) == 5:
		plan := plan{unordered: arguments[4] == "unordered"}
		if plan.count, err = strconv.Atoi(arguments[2]); err != nil {
			return 0, err
		}
		for _, text := range strings.Split(arguments[3], ",") {
			size, err := strconv.Atoi(text)
			if err != nil || size < 1 || size > messageBytesMax {
				return 0, fmt.Errorf("not a size: %s", text)
			}
			plan.sizes = append(plan.sizes, size)
		}
		return drive(int(port), &plan)
	default:
		return 0, usage
	}
}

func main() {
	time.AfterFunc(timeLimit, func() {
		fmt.Printf("FAIL not done within %v\n", timeLimit)
		os.Exit(1)
	})
	count, err := run(os.Args[1:])
	if err != nil {
		fmt.Printf("FAIL %v\n", err)
		os.Exit(1)
	}
	fmt.Printf("OK n=%d\n", count)
}
