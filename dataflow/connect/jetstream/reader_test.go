package jetstream_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/jetstream"
)

func never(*connect.Batch[struct{}, string]) bool { return false }

func gap(t *testing.T, r connect.Reader[struct{}, string], s connect.Split, after dataflow.Position) {
	t.Helper()
	if c, err := r.Open(t.Context(), s, after); !errors.Is(err, connect.ErrGap) || connect.Passes(err) {
		t.Errorf("opening behind %v: %v, want connect.ErrGap, which stays", after, err)
		if err == nil {
			c.Close()
		}
	}
}

// Case 46: removed messages are a gap if they were not read and, as far as the reader can know, had the split's subject.
func TestPurges(t *testing.T) {
	b := startBroker(t)
	s := b.stream(t, natsjs.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	for i := range 20 {
		b.publish(t, []string{"s.a", "s.b"}[i%2], count(i, i+1)...) // a has odd sequences
	}
	all, subject := b.reader(t, jetstream.Stream[struct{}, string]{Name: "S"}), b.reader(t, jetstream.Stream[struct{}, string]{Name: "S", Subjects: []string{"s.a"}})
	whole, a := splits(t, all)[0], splits(t, subject)[0]
	purge := func(opts ...natsjs.StreamPurgeOpt) {
		t.Helper()
		if err := s.Purge(t.Context(), opts...); err != nil {
			t.Fatal(err)
		}
	}

	purge(natsjs.WithPurgeSequence(6)) // up to 5, below both floors
	equal(t, "behind the floor", take(t, open(t, all, whole, dataflow.Position{Major: 5}), 15).Values, count(5, 20))
	equal(t, "behind the floor of a", take(t, open(t, subject, a, dataflow.Position{Major: 5}), 7).Values, []string{"6", "8", "10", "12", "14", "16", "18"})
	gap(t, all, whole, dataflow.Position{Major: 4})

	// Neither a single deleted message nor a purge of other subjects is a gap.
	if err := s.DeleteMsg(t.Context(), 9); err != nil {
		t.Fatal(err)
	}
	purge(natsjs.WithPurgeSubject("s.b"))
	equal(t, "without s.b and 9", take(t, open(t, subject, a, dataflow.Position{Major: 7}), 5).Values, []string{"10", "12", "14", "16", "18"})

	purge()
	b.publish(t, "s.a", "last")
	gap(t, all, whole, dataflow.Position{Major: 11})
	gap(t, subject, a, dataflow.Position{Major: 11})
	equal(t, "from the beginning", take(t, open(t, all, whole, dataflow.Position{}), 1).Values, []string{"last"})
}

// TestRemovedBeforeTheyCome checks that an idle cursor does not skip messages that are removed before it asks for them.
func TestRemovedBeforeTheyCome(t *testing.T) {
	b := startBroker(t)
	// There are more messages than the client requests at once, so the rest is still at the server.
	s := b.stream(t, natsjs.StreamConfig{Name: "S", Subjects: []string{"s"}})
	b.publish(t, "s", count(0, 10_000)...)
	r := b.reader(t, jetstream.Stream[struct{}, string]{Name: "S"})
	c := open(t, r, splits(t, r)[0], dataflow.Position{})
	first := take(t, c, 1)
	if err := s.Purge(t.Context(), natsjs.WithPurgeSequence(9_990)); err != nil {
		t.Fatal(err)
	}
	rest, err := until(t, c, func(all *connect.Batch[struct{}, string]) bool {
		return len(all.Values) > 0 && all.Values[len(all.Values)-1] == "9999"
	})
	if !errors.Is(err, connect.ErrGap) || !connect.Passes(err) {
		t.Errorf("the error is %v, want connect.ErrGap, which passes", err)
	}
	got := append(first.Values, rest.Values...)
	equal(t, "what was given", got, count(0, len(got)))
	gap(t, r, splits(t, r)[0], first.End)
}

// TestQuietSubject checks that the floor of a quiet subject follows the stream, so removed messages of other subjects are no gap.
func TestQuietSubject(t *testing.T) {
	jetstream.SettledAtOnce(t)
	b := startBroker(t)
	s := b.stream(t, natsjs.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	b.publish(t, "s.quiet", "1")
	b.publish(t, "s.busy", count(0, 500)...)
	r := b.reader(t, jetstream.Stream[struct{}, string]{Name: "S", Subjects: []string{"s.quiet"}})
	split := splits(t, r)[0]
	c := open(t, r, split, dataflow.Position{})
	got, err := until(t, c, func(all *connect.Batch[struct{}, string]) bool { return all.End.Major == 501 })
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "values", got.Values, []string{"1"})
	if got.Behind != 0 {
		t.Errorf("%d wait behind the end, want 0", got.Behind)
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.publish(t, "s.quiet", "2")
	equal(t, "the same cursor", take(t, c, 1).Values, []string{"2"})
	equal(t, "another one", take(t, open(t, r, split, got.End), 1).Values, []string{"2"})
}

// TestLostEnd checks that a stream that has lost its end is a gap, even if other messages now have the lost sequences.
func TestLostEnd(t *testing.T) {
	b := startBroker(t)
	b.stream(t, natsjs.StreamConfig{Name: "S", Subjects: []string{"s"}})
	b.publish(t, "s", count(0, 10)...)
	b.stop()
	backup := t.TempDir()
	if err := os.CopyFS(backup, os.DirFS(b.opts.StoreDir)); err != nil {
		t.Fatal(err)
	}
	b.start(t)
	b.connected(t)
	b.publish(t, "s", count(10, 20)...)
	r := b.reader(t, jetstream.Stream[struct{}, string]{Name: "S"})
	split := splits(t, r)[0]
	floor := take(t, open(t, r, split, dataflow.Position{}), 15).At[14]
	ten := take(t, open(t, r, split, dataflow.Position{}), 10).At[9]
	b.stop()
	b.opts.StoreDir = backup
	b.start(t)
	b.connected(t)
	gap(t, r, split, floor)
	b.publish(t, "s", count(100, 120)...)
	gap(t, r, split, floor)
	equal(t, "behind what is in the backup", take(t, open(t, r, split, ten), 20).Values, count(100, 120))
}

// Case 45 of JetStream: the server restarts. The cursor returns an error, and a new cursor continues.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	b.stream(t, natsjs.StreamConfig{Name: "S", Subjects: []string{"s"}})
	b.publish(t, "s", count(0, 100)...)
	r := b.reader(t, jetstream.Stream[struct{}, string]{Name: "S"})
	split := splits(t, r)[0]
	c := open(t, r, split, dataflow.Position{})
	all := take(t, c, 100)
	b.stop()
	b.start(t)
	b.connected(t)
	b.publish(t, "s", count(100, 200)...)
	rest, err := until(t, c, never)
	if !connect.Passes(err) {
		t.Errorf("the error is %v, which does not pass", err)
	}
	equal(t, "what has come of the first cursor", rest.Values, nil)
	equal(t, "what comes of another one", take(t, open(t, r, split, all.End), 100).Values, count(100, 200))
}

// TestLostOnTheWay checks that a message that the server delivered, and the cursor did not receive, is noticed.
func TestLostOnTheWay(t *testing.T) {
	b := startBroker(t)
	s := b.stream(t, natsjs.StreamConfig{Name: "S", Subjects: []string{"s"}})
	b.publish(t, "s", "0")
	r := b.reader(t, jetstream.Stream[struct{}, string]{Name: "S"})
	c := open(t, r, splits(t, r)[0], dataflow.Position{})
	take(t, c, 1)
	name, ok := <-s.ConsumerNames(t.Context()).Name()
	if !ok {
		t.Fatal("the reader has no consumer")
	}
	consumer, err := s.Consumer(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	somebody, err := consumer.Fetch(1, natsjs.FetchMaxWait(patience)) // takes one of the next messages
	if err != nil {
		t.Fatal(err)
	}
	n := 1
	for taken := false; !taken; n++ { // the server may learn of the fetch after some of them
		b.publish(t, "s", count(n, n+1)...)
		select {
		case _, taken = <-somebody.Messages():
			if !taken {
				t.Fatalf("nobody has taken one of %d messages (%v)", n, somebody.Error())
			}
		default:
		}
	}
	b.publish(t, "s", count(n, n+1)...) // after the missing message
	got, err := until(t, c, never)
	if !connect.Passes(err) {
		t.Errorf("the error is %v, which does not pass", err)
	}
	equal(t, "what has come", got.Values, count(1, 1+len(got.Values)))
}

// Case 9: a stream that is deleted and created again ends the split.
func TestStreamIsMadeAgain(t *testing.T) {
	b := startBroker(t)
	cfg := natsjs.StreamConfig{Name: "S", Subjects: []string{"s"}}
	b.stream(t, cfg)
	b.publish(t, "s", count(0, 10)...)
	r := b.reader(t, jetstream.Stream[struct{}, string]{Name: "S"})
	split := splits(t, r)[0]
	c := open(t, r, split, dataflow.Position{})
	end := take(t, c, 10).End
	if err := b.js.DeleteStream(t.Context(), "S"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Splits(t.Context()); !connect.Passes(err) {
		t.Errorf("looking for a stream that is not there: %v, want an error that passes", err)
	}
	b.stream(t, cfg)
	b.publish(t, "s", count(50, 70)...)
	// The cursor may have to try several times until the stream exists, as a pump does.
	_, err := until(t, c, never)
	if err != io.EOF && !connect.Passes(err) {
		t.Errorf("the cursor ends with %v, want io.EOF or an error that passes", err)
	}
	again := open(t, r, split, end)
	if rest, err := until(t, again, never); err != io.EOF || len(rest.Values) > 0 {
		t.Errorf("the split of the first stream has %v, and ends with %v, want io.EOF", rest.Values, err)
	}
	equal(t, "the other split", take(t, open(t, r, splits(t, r)[0], dataflow.Position{}), 20).Values, count(50, 70))
}

// TestCompacted checks that a bucket, which keeps the last value of a key only, has no gap for a reader with Compacted.
func TestCompacted(t *testing.T) {
	b := startBroker(t)
	b.stream(t, natsjs.StreamConfig{Name: "S", Subjects: []string{"s.>"}, MaxMsgsPerSubject: 1})
	b.publish(t, "s.a", "1")
	plain, compacted := b.reader(t, jetstream.Stream[struct{}, string]{Name: "S"}), b.reader(t, jetstream.Stream[struct{}, string]{Name: "S", Compacted: true})
	split := splits(t, plain)[0]
	c := open(t, compacted, split, dataflow.Position{})
	floor := take(t, c, 1).End
	b.publish(t, "s.a", count(2, 50)...)
	gap(t, plain, split, floor)
	equal(t, "the last value", take(t, open(t, compacted, split, floor), 1).Values, []string{"49"})
	got, err := until(t, c, func(all *connect.Batch[struct{}, string]) bool {
		return len(all.Values) > 0 && all.Values[len(all.Values)-1] == "49"
	})
	if err != nil {
		t.Errorf("the open cursor has %v, and ends with %v", got.Values, err)
	}
}

func TestFrom(t *testing.T) {
	b := startBroker(t)
	s := b.stream(t, natsjs.StreamConfig{Name: "S", Subjects: []string{"s"}})
	b.publish(t, "s", count(0, 10)...)
	fourth, err := s.GetMsg(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	r := b.reader(t, jetstream.Stream[struct{}, string]{Name: "S", From: fourth.Time})
	split := splits(t, r)[0]
	equal(t, "from a time", take(t, open(t, r, split, dataflow.Position{}), 7).Values, count(3, 10))
	equal(t, "from a floor", take(t, open(t, r, split, dataflow.Position{Major: 1}), 9).Values, count(1, 10))
}

// TestDecode checks that a message whose decoding fails for now comes again, and that one that can never be decoded is a dead
// letter.
func TestDecode(t *testing.T) {
	b := startBroker(t)
	b.stream(t, natsjs.StreamConfig{Name: "S", Subjects: []string{"s"}})
	b.publish(t, "s", "1", "2", "\xffbad", "panic", "3")
	failures := 2
	r := b.reader(t, jetstream.Stream[struct{}, string]{Name: "S", Decode: func(m jetstream.Message) (struct{}, string, error) {
		if string(m.Data) == "2" && failures > 0 {
			failures--
			return struct{}{}, "", connect.Retry(errors.New("not now"))
		}
		if string(m.Data) == "panic" {
			panic("no text")
		}
		if m.Subject != "s" || m.Sequence == 0 || time.Since(m.Time) > time.Hour {
			t.Errorf("the message is %+v", m)
		}
		return text(m)
	}})
	split := splits(t, r)[0]
	c := open(t, r, split, dataflow.Position{})
	var got connect.Batch[struct{}, string]
	for len(got.Values) < 3 {
		b, err := until(t, c, func(all *connect.Batch[struct{}, string]) bool { return len(got.Values)+len(all.Values) == 3 })
		got.Values, got.Bad = append(got.Values, b.Values...), append(got.Bad, b.Bad...)
		if err != nil && !connect.Passes(err) {
			t.Fatal(err)
		}
	}
	equal(t, "values", got.Values, []string{"1", "2", "3"})
	if len(got.Bad) != 2 || !strings.HasPrefix(got.Bad[1].Cause, "decoding it panicked: no text\n") || got.Bad[0].Cause != errNoText.Error() || string(got.Bad[0].Raw) != "\xffbad" || got.Bad[0].At.Major != 3 {
		t.Errorf("the dead letters are %+v", got.Bad)
	}
	if failures != 0 {
		t.Errorf("%d errors were not asked for", failures)
	}
}

func TestRefusedStreams(t *testing.T) {
	b := startBroker(t)
	b.stream(t, natsjs.StreamConfig{Name: "W", Subjects: []string{"w"}, Retention: natsjs.WorkQueuePolicy})
	b.publish(t, "w", "job")
	r := b.reader(t, jetstream.Stream[struct{}, string]{Name: "W"})
	if _, err := r.Open(t.Context(), splits(t, r)[0], dataflow.Position{}); err == nil || connect.Passes(err) {
		t.Errorf("a work queue is read: %v", err)
	}
	if info, err := b.js.Stream(t.Context(), "W"); err != nil || info.CachedInfo().State.Msgs != 1 {
		t.Errorf("the queue was touched: %v", err)
	}
	// A consumer that acknowledges nothing would remove the messages of an interest stream.
	i := b.stream(t, natsjs.StreamConfig{Name: "I", Subjects: []string{"i"}, Retention: natsjs.InterestPolicy})
	if _, err := i.CreateConsumer(t.Context(), natsjs.ConsumerConfig{Durable: "others", AckPolicy: natsjs.AckExplicitPolicy}); err != nil {
		t.Fatal(err)
	}
	b.publish(t, "i", "event")
	r = b.reader(t, jetstream.Stream[struct{}, string]{Name: "I"})
	if _, err := r.Open(t.Context(), splits(t, r)[0], dataflow.Position{}); err == nil || connect.Passes(err) {
		t.Errorf("a stream of interest is read: %v", err)
	}
	for _, subjects := range [][]string{{"a", "a"}, {"a.*", "a.b"}, {"a.>", "a.b.c"}, {"*.b", "a.*"}} {
		s := jetstream.Stream[struct{}, string]{JetStream: b.js, Name: "S", Subjects: subjects, Decode: text}
		if _, err := s.Reader(); err == nil || !strings.Contains(err.Error(), "twice") {
			t.Errorf("%v: %v", subjects, err)
		}
	}
	for _, subjects := range [][]string{{"a", "b"}, {"a.*", "a.b.c"}, {"a.>", "a"}, {"*.b", "a.c"}} {
		s := jetstream.Stream[struct{}, string]{JetStream: b.js, Name: "S", Subjects: subjects, Decode: text}
		if _, err := s.Reader(); err != nil {
			t.Errorf("%v: %v", subjects, err)
		}
	}
}
