// pion/sctp as one end of a transfer in UDP. Command line and result are those of ../sockets/peer.c, as far as pion has
// what they ask for.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"hash/fnv"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pion/logging"
	"github.com/pion/sctp"
)

const afterReset = 1000

// checksum of what goes in one direction: see ../sockets/checksum.h.
type checksum struct {
	sync.Mutex
	byMessage       bool
	streams         map[uint16]hash.Hash
	sum             [32]byte
	bytes, messages int
}

func (c *checksum) fold(digest []byte) {
	for i := range c.sum {
		c.sum[i] ^= digest[i]
	}
}

func (c *checksum) add(stream uint16, message []byte) int {
	c.Lock()
	defer c.Unlock()
	if c.byMessage {
		digest := sha256.Sum256(message)
		c.fold(digest[:])
	} else {
		if c.streams[stream] == nil {
			c.streams[stream] = sha256.New()
		}
		c.streams[stream].Write(message)
	}
	c.bytes += len(message)
	c.messages++
	return c.bytes
}

func (c *checksum) text() string {
	c.Lock()
	defer c.Unlock()
	for _, state := range c.streams {
		c.fold(state.Sum(nil))
	}
	c.streams = map[uint16]hash.Hash{}
	return hex.EncodeToString(c.sum[:])
}

// wire is a UDP socket that answers whoever has written to it.
type wire struct {
	*net.UDPConn
	lock sync.Mutex
	peer *net.UDPAddr
}

func (w *wire) Read(to []byte) (int, error) {
	n, from, err := w.ReadFromUDP(to)
	if err == nil {
		w.lock.Lock()
		w.peer = from
		w.lock.Unlock()
	}
	return n, err
}

func (w *wire) Write(data []byte) (int, error) {
	w.lock.Lock()
	peer := w.peer
	w.lock.Unlock()
	return w.WriteToUDP(data, peer)
}

func (w *wire) RemoteAddr() net.Addr { return w.peer }

type end struct {
	options        map[string]int
	giveUp         bool
	association    *sctp.Association
	sent, received checksum
	damaged        int
	resets         int
	lock           sync.Mutex
	followed       map[*sctp.Stream]bool
	failure        error
	aborted        bool
	arrived        chan struct{}
	over           chan struct{}
	once           sync.Once
	random         uint64
}

func fail(what string, err error) {
	fmt.Fprintf(os.Stderr, "peer: %s: %v\n", what, err)
	os.Exit(1)
}

func (e *end) fill(message []byte) {
	for i := range message {
		if i%8 == 0 {
			e.random ^= e.random >> 12
			e.random ^= e.random << 25
			e.random ^= e.random >> 27
		}
		message[i] = byte(e.random * 0x2545f4914f6cdd1d >> (56 - 8*(i%8)))
	}
}

func seal(data []byte) uint32 {
	sum := fnv.New32a()
	sum.Write(data)
	return sum.Sum32()
}

// ended takes note of why there is nothing more to read.
func (e *end) ended(err error) {
	e.once.Do(func() {
		e.failure = err
		close(e.over)
	})
}

func (e *end) read(stream *sctp.Stream) {
	buffer := make([]byte, 1<<16)
	for {
		n, _, err := stream.ReadSCTP(buffer)
		if err != nil {
			// accept may have heard of the end before, and of no reason.
			if strings.Contains(strings.ToLower(err.Error()), "abort") {
				e.lock.Lock()
				e.aborted = true
				e.lock.Unlock()
				e.ended(err)
			}
			return
		}
		data := buffer[:n]
		before := e.received.bytes
		total := e.received.add(stream.StreamIdentifier(), data)
		if mark := e.options["mark"]; mark > 0 && before < mark && total >= mark {
			fmt.Fprintln(os.Stderr, "mark")
		}
		if e.options["sealed"] != 0 && (n <= 4 || seal(data[4:]) != uint32(data[0])|uint32(data[1])<<8|uint32(data[2])<<16|uint32(data[3])<<24) {
			e.lock.Lock()
			e.damaged++
			e.lock.Unlock()
		}
		if total >= e.options["receive"] {
			select {
			case e.arrived <- struct{}{}:
			default:
			}
		}
	}
}

func (e *end) accept() {
	for {
		stream, err := e.association.AcceptStream()
		if err != nil {
			e.ended(err)
			return
		}
		e.follow(stream)
	}
}

// follow reads a stream that both ends have opened only once: two readers would mix up the order of its messages.
func (e *end) follow(stream *sctp.Stream) {
	e.lock.Lock()
	defer e.lock.Unlock()
	if !e.followed[stream] {
		e.followed[stream] = true
		go e.read(stream)
	}
}

func (e *end) open(number int) *sctp.Stream {
	stream, err := e.association.OpenStream(uint16(number), sctp.PayloadTypeWebRTCBinary)
	if err != nil {
		fail("stream", err)
	}
	kind := sctp.ReliabilityTypeReliable
	if e.giveUp {
		kind = sctp.ReliabilityTypeRexmit
	}
	stream.SetReliabilityParams(e.options["unordered"] != 0, kind, uint32(e.options["value"]))
	e.follow(stream)
	return stream
}

func (e *end) write(stream *sctp.Stream, size int) {
	message := make([]byte, size)
	e.fill(message)
	if e.options["sealed"] != 0 && size > 4 {
		sum := seal(message[4:])
		copy(message, []byte{byte(sum), byte(sum >> 8), byte(sum >> 16), byte(sum >> 24)})
	}
	if _, err := stream.WriteSCTP(message, sctp.PayloadTypeWebRTCBinary); err != nil {
		fail("send", err)
	}
	e.sent.add(stream.StreamIdentifier(), message)
}

func (e *end) send() {
	streams := map[int]*sctp.Stream{}
	for i := 0; e.sent.bytes < e.options["send"]; i++ {
		number := i % e.options["streams"]
		if streams[number] == nil {
			streams[number] = e.open(number)
		}
		e.write(streams[number], min(e.options["message"], e.options["send"]-e.sent.bytes))
	}
	if e.options["reset"] == 0 {
		return
	}
	for e.association.BufferedAmount() > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	for _, stream := range streams {
		if err := stream.Close(); err != nil {
			fail("reset", err)
		}
		e.resets++
	}
	time.Sleep(200 * time.Millisecond)
	for number := range streams {
		e.write(e.open(number), afterReset)
	}
}

func associate(own, peer string, options map[string]int, idata bool) *sctp.Association {
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(own), Port: 9899})
	if err != nil {
		fail("bind", err)
	}
	carrier := &wire{UDPConn: socket, peer: &net.UDPAddr{IP: net.ParseIP(peer), Port: 9899}}
	logs := logging.NewDefaultLoggerFactory()
	configuration := sctp.Config{NetConn: carrier, LoggerFactory: logs, BlockWrite: true, MaxReceiveBufferSize: uint32(options["buffer"])}
	if peer == "" {
		fmt.Fprintln(os.Stderr, "ready")
		association, err := sctp.ServerWithOptions(configuration, sctp.WithEnableInterleaving(idata))
		if err != nil {
			fail("accept", err)
		}
		return association
	}
	association, err := sctp.ClientWithOptions(configuration, sctp.WithEnableInterleaving(idata))
	if err != nil {
		fail("connect", err)
	}
	return association
}

func parse(words []string) (own, peer string, giveUp bool, options map[string]int) {
	options = map[string]int{"streams": 1, "message": 16384, "seconds": 60, "buffer": 4 << 20, "seed": 99}
	first := 2
	own = words[1]
	if words[0] == "connect" {
		peer, first = words[2], 3
	}
	for _, word := range words[first:] {
		name, value, _ := strings.Cut(word, "=")
		if name == "pr" {
			giveUp = value != "none"
			continue
		}
		number, err := strconv.Atoi(value)
		if err != nil {
			fail(word, err)
		}
		options[name] = number
	}
	return own, peer, giveUp, options
}

// finish ends the association, or waits until the peer has, and says how it was.
func (e *end) finish() (aborted int, how string) {
	switch {
	case e.options["abort"] != 0:
		e.association.Abort("enough")
		return 0, "reset"
	case e.options["wait"] == 0:
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := e.association.Shutdown(ctx); err != nil && !strings.Contains(err.Error(), "non-established") {
			fail("shutdown", err)
		}
	}
	<-e.over
	time.Sleep(50 * time.Millisecond)
	e.lock.Lock()
	defer e.lock.Unlock()
	if e.aborted {
		return 1, "reset"
	}
	return 0, "shutdown"
}

func main() {
	own, peer, giveUp, options := parse(os.Args[1:])
	byMessage := options["unordered"] != 0 || options["by-message"] != 0
	e := &end{options: options, giveUp: giveUp, arrived: make(chan struct{}, 1), over: make(chan struct{}), followed: map[*sctp.Stream]bool{}}
	e.random = 0x2545f4914f6cdd1d ^ uint64(options["seed"])
	e.sent = checksum{byMessage: byMessage, streams: map[uint16]hash.Hash{}}
	e.received = checksum{byMessage: byMessage, streams: map[uint16]hash.Hash{}}
	time.AfterFunc(time.Duration(options["seconds"])*time.Second, func() {
		fmt.Fprintf(os.Stderr, "peer: gave up: sent %d, received %d bytes\n", e.sent.bytes, e.received.bytes)
		os.Exit(1)
	})
	e.association = associate(own, peer, options, options["idata"] != 0)
	start := time.Now()
	go e.accept()
	e.send()
	for e.received.bytes < options["receive"] {
		select {
		case <-e.arrived:
		case <-e.over:
			fail("receive", e.failure)
		}
	}
	if options["hang"] != 0 {
		fmt.Fprintln(os.Stderr, "sent", e.sent.text())
		select {}
	}
	aborted, how := e.finish()
	result := map[string]any{
		"sent": e.sent.bytes, "sent_messages": e.sent.messages, "sent_digest": e.sent.text(),
		"received": e.received.bytes, "received_messages": e.received.messages, "received_digest": e.received.text(),
		"damaged": e.damaged, "resets": e.resets, "aborted": aborted, "end": how, "seconds": time.Since(start).Seconds(),
	}
	line, err := json.Marshal(result)
	if err != nil {
		fail("result", err)
	}
	fmt.Println(string(line))
}
