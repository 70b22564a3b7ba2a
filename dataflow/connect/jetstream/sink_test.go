package jetstream_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/jetstream"
)

var lane = connect.Lane{Flow: "flow", Output: "out"}

func plain(_ uint64, x string) (*nats.Msg, error) { return &nats.Msg{Data: []byte(x)}, nil }

// lanes creates a stream for lanes and returns a sink that writes to it.
func (b *broker) lanes(t testing.TB, allowAtomic bool) jetstream.Sink[string] {
	t.Helper()
	b.stream(t, natsjs.StreamConfig{Name: "O", Subjects: []string{"lanes.>", "out.>"}, AllowAtomicPublish: allowAtomic})
	return jetstream.Sink[string]{JetStream: b.js, Stream: "O", Prefix: "lanes", Encode: plain}
}

func (b *broker) written(t testing.TB) []string {
	t.Helper()
	return b.values(t, jetstream.Stream[struct{}, string]{Name: "O"})
}

func openLane[T any](t testing.TB, s jetstream.Sink[T], want uint64) connect.Writer[T, connect.Atomic] {
	t.Helper()
	w, last, err := s.Open(t.Context(), lane)
	if err != nil || last != want {
		t.Fatalf("opened, the lane has elements up to %d, want %d (%v)", last, want, err)
	}
	return w
}

// A relay is a proxy of a server that can hold back its answers.
type relay struct {
	net.Listener
	muted atomic.Bool
}

func startRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				_, _ = io.Copy(server, client)
				server.Close()
			}()
			go func() {
				defer client.Close()
				buf := make([]byte, 64<<10)
				for {
					n, err := server.Read(buf)
					if err != nil {
						return
					}
					if !r.muted.Load() {
						if _, err := client.Write(buf[:n]); err != nil {
							return
						}
					}
				}
			}()
		}
	}()
	return r
}

// Case 47: a write that succeeded but whose answer was lost is found when the lane is opened again.
func TestAnswerIsLost(t *testing.T) {
	for _, allowAtomic := range []bool{true, false} {
		b := startBroker(t)
		s := b.lanes(t, allowAtomic)
		r := startRelay(t, strings.TrimPrefix(b.server.ClientURL(), "nats://"))
		nc, err := nats.Connect("nats://" + r.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		far := s
		if far.JetStream, err = natsjs.New(nc); err != nil {
			t.Fatal(err)
		}
		far.Timeout = 300 * time.Millisecond
		w := openLane(t, far, 0)
		r.muted.Store(true)
		if _, err := w.Write(t.Context(), 1, []string{"1"}); !connect.Passes(err) {
			t.Fatalf("the error of a write without an answer is %v, want one that passes", err)
		}
		r.muted.Store(false)
		if _, err := w.Write(t.Context(), 1, []string{"1"}); !errors.Is(err, connect.ErrFenced) {
			t.Fatalf("written once more, the error is %v, want connect.ErrFenced", err)
		}
		again := openLane(t, s, 1)
		if _, err := again.Write(t.Context(), 2, []string{"2"}); err != nil {
			t.Fatal(err)
		}
		equal(t, "values", b.written(t), []string{"1", "2"})
	}
}

// TestSubjectUnderWay has a server refuse a write because another message of the lane is being kept, as it does for a moment after
// an acknowledgement. That passes, and says nothing of another writer. The stream is replaced by a responder, since a server does
// so only by chance.
func TestSubjectUnderWay(t *testing.T) {
	b := startBroker(t)
	w := openLane(t, b.lanes(t, false), 0)
	if err := b.js.DeleteStream(t.Context(), "O"); err != nil {
		t.Fatal(err)
	}
	sub, err := b.js.Conn().Subscribe("lanes.>", func(m *nats.Msg) {
		m.Respond([]byte(`{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}`))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	if _, err := w.Write(t.Context(), 1, []string{"1"}); !connect.Passes(err) || errors.Is(err, connect.ErrFenced) {
		t.Errorf("the error is %v, want one that passes and is not connect.ErrFenced", err)
	}
}

// TestLongWrites checks that a write of more elements than fit in a batch takes several batches.
func TestLongWrites(t *testing.T) {
	for _, subject := range []string{"", "out.x"} {
		b := startBroker(t)
		s := b.lanes(t, true)
		s.Encode = func(_ uint64, x string) (*nats.Msg, error) { return &nats.Msg{Subject: subject, Data: []byte(x)}, nil }
		w := openLane(t, s, 0)
		for _, n := range []int{1, 999, 1000, 2500} {
			first := len(b.written(t)) + 1
			if _, err := w.Write(t.Context(), uint64(first), count(first, first+n)); err != nil {
				t.Fatal(err)
			}
		}
		equal(t, "values", b.written(t), count(1, 4501))
		openLane(t, s, 4500)
	}
}

// TestWritersOverRestarts checks that an open lane, and one that is opened later, continue after
// the server restarts.
func TestWritersOverRestarts(t *testing.T) {
	b := startBroker(t)
	s := b.lanes(t, true)
	w := openLane(t, s, 0)
	for first := 1; first < 10; first += 3 {
		if _, err := w.Write(t.Context(), uint64(first), count(first, first+3)); err != nil {
			t.Fatal(err)
		}
		b.stop()
		b.start(t)
		b.connected(t)
	}
	openLane(t, s, 9)
	equal(t, "values", b.written(t), count(1, 10))
}

// TestNumberIsGone checks that a lane whose number is lost is refused, and not written again from
// the beginning.
func TestNumberIsGone(t *testing.T) {
	b := startBroker(t)
	s := b.lanes(t, true)
	f := dataflow.New()
	in, xs := dataflow.Input[string](dataflow.At[shop](f), "in")
	out := dataflow.Output(xs, "out")
	app, err := dataflow.Start(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	drains := connect.Drain(t.Context(), app, out, s, connect.DrainOptions{Flow: lane.Flow, Output: lane.Output})
	send := func(x string) {
		t.Helper()
		if err := in.Send(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	send("1")
	for waiting := time.After(patience); len(b.written(t)) < 1; {
		select {
		case <-waiting:
			t.Fatal("nothing is written")
		default:
		}
	}
	stream, err := b.js.Stream(t.Context(), "O")
	if err == nil {
		err = stream.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	send("2")
	select {
	case <-drains.Done():
	case <-time.After(patience):
		t.Fatal("the drain goes on")
	}
	if err := drains.Err(); !errors.Is(err, connect.ErrGap) {
		t.Errorf("the error is %v, want connect.ErrGap", err)
	}
	equal(t, "values", b.written(t), nil)
}

// TestLaneNames checks that two lanes have two subjects, whatever their names are.
func TestLaneNames(t *testing.T) {
	b := startBroker(t)
	s := b.lanes(t, false)
	lanes := []connect.Lane{
		{Flow: "a.b", Output: "c"}, {Flow: "a", Output: "b.c"}, {Flow: "a b", Output: "c"}, {Flow: "*", Output: ">"}, {Flow: "%2A", Output: "%3E"},
		{Flow: "\t", Output: "ü\r\n", Partition: 7},
	}
	for i, l := range lanes {
		w, last, err := s.Open(t.Context(), l)
		if err != nil || last != 0 {
			t.Fatalf("%q: opened, it has elements up to %d (%v)", l, last, err)
		}
		if _, err := w.Write(t.Context(), 1, count(0, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	for i, l := range lanes {
		if _, last, err := s.Open(t.Context(), l); err != nil || last != uint64(i+1) {
			t.Errorf("%q: it has elements up to %d, want %d (%v)", l, last, i+1, err)
		}
	}
}

// TestRefusedElements checks that an element that cannot be written ends the drain, and that
// nothing of its write is in the stream.
func TestRefusedElements(t *testing.T) {
	b := startBroker(t)
	s := b.lanes(t, false)
	for name, encode := range map[string]func(uint64, string) (*nats.Msg, error){
		"an error":   func(uint64, string) (*nats.Msg, error) { return nil, errNoText },
		"no message": func(uint64, string) (*nats.Msg, error) { return nil, nil },
		"too large":  func(uint64, string) (*nats.Msg, error) { return &nats.Msg{Data: make([]byte, 2<<20)}, nil },
		"headers too large": func(uint64, string) (*nats.Msg, error) {
			return &nats.Msg{Header: nats.Header{"X": {strings.Repeat("x", 2<<20)}}}, nil
		},
		"a subject": func(uint64, string) (*nats.Msg, error) { return &nats.Msg{Subject: "out.x"}, nil },
	} {
		refused := s
		refused.Encode = func(n uint64, x string) (*nats.Msg, error) {
			if n == 2 {
				return encode(n, x)
			}
			return plain(n, x)
		}
		w := openLane(t, refused, 0)
		if _, err := w.Write(t.Context(), 1, count(1, 4)); err == nil || connect.Passes(err) {
			t.Errorf("%s: the error is %v, want one that stays", name, err)
		}
		if got := b.written(t); len(got) > 0 {
			t.Errorf("%s: %v was written", name, got)
		}
	}
	other := s
	other.Prefix = "nowhere"
	if _, _, err := other.Open(t.Context(), lane); !connect.Passes(err) {
		t.Errorf("a subject that no stream takes: %v, want an error that passes, since the stream may have no leader", err)
	}
	b.stream(t, natsjs.StreamConfig{Name: "W", Subjects: []string{"w.>"}, Retention: natsjs.InterestPolicy})
	other.Stream, other.Prefix = "W", "w"
	if _, _, err := other.Open(t.Context(), lane); err == nil || connect.Passes(err) {
		t.Errorf("a stream that forgets: %v, want an error that stays", err)
	}
	other.Stream = "O"
	if _, _, err := other.Open(t.Context(), lane); err == nil || connect.Passes(err) {
		t.Errorf("a subject of another stream: %v, want an error that stays", err)
	}
	b.publish(t, "lanes.flow.out.0", "not of a lane")
	if _, _, err := s.Open(t.Context(), lane); err == nil || connect.Passes(err) {
		t.Errorf("a subject that others write to: %v, want an error that stays", err)
	}
	if _, err := openLaneAt(t, s, connect.Lane{Flow: "other", Output: "out"}).Write(t.Context(), 1, count(1, 2)); err != nil {
		t.Error(err)
	}
}

func openLaneAt(t *testing.T, s jetstream.Sink[string], l connect.Lane) connect.Writer[string, connect.Atomic] {
	t.Helper()
	w, _, err := s.Open(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestHeaders checks that a message holds the number of its element in addition to its own headers.
func TestHeaders(t *testing.T) {
	b := startBroker(t)
	s := b.lanes(t, true)
	shared := nats.Header{"Kind": {"x"}, "Millrace-Mark": {"9"}}
	s.Encode = func(uint64, string) (*nats.Msg, error) { return &nats.Msg{Header: shared}, nil }
	if _, err := openLane(t, s, 0).Write(t.Context(), 1, []string{"", ""}); err != nil {
		t.Fatal(err)
	}
	if len(shared) != 2 {
		t.Errorf("the headers that were given have become %v", shared)
	}
	var numbers []string
	b.values(t, jetstream.Stream[struct{}, string]{Name: "O", Decode: func(m jetstream.Message) (struct{}, string, error) {
		numbers = append(numbers, m.Header.Get("Kind")+m.Header.Get("Millrace-Number"))
		return struct{}{}, "", nil
	}})
	equal(t, "numbers", numbers, []string{"x1", "x2"})
	openLane(t, s, 2)
}

// TestMessageIDs has Encode give two elements the same Nats-Msg-Id. The server stores the first, and answers the second as if it had
// stored it. The write fails, so that the flow keeps the element.
func TestMessageIDs(t *testing.T) {
	for _, atomic := range []bool{false, true} {
		b := startBroker(t)
		s := b.lanes(t, atomic)
		s.Encode = func(_ uint64, x string) (*nats.Msg, error) {
			return &nats.Msg{Data: []byte(x), Header: nats.Header{natsjs.MsgIDHeader: {x[:1]}}}, nil
		}
		w := openLane(t, s, 0)
		if _, err := w.Write(t.Context(), 1, []string{"a1", "b2"}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(t.Context(), 3, []string{"a3"}); err == nil || connect.Passes(err) || errors.Is(err, connect.ErrFenced) || !strings.Contains(err.Error(), natsjs.MsgIDHeader) {
			t.Errorf("the error is %v", err)
		}
		equal(t, "elements", b.written(t), []string{"a1", "b2"})
		openLane(t, s, 2)
	}
}
