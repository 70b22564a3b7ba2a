package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/kafka"
)

func TestReadsFromTheFirstRecord(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		topic := b.topic(3, nil)
		for p := range int32(3) {
			b.write(topic, p, fmt.Sprint(p, "a"), fmt.Sprint(p, "b"))
		}
		r := b.reader(t, kafka.Topic[string, string]{Name: topic})
		ss := splits(t, r)
		if len(ss) != 3 {
			t.Fatalf("%d splits, want 3", len(ss))
		}
		for p, s := range ss {
			if want := fmt.Sprintf("%s/%d", topic, p); s.Name != want {
				t.Errorf("split %d has the name %q, want %q", p, s.Name, want)
			}
			all := read(t, open(t, r, s, dataflow.Position{}), records(2))
			equal(t, s.Name, all.Values, []string{fmt.Sprint(p, "a"), fmt.Sprint(p, "b")})
			if all.At[0].Major != 1 || all.At[1].Major != 2 || all.End != all.At[1] || all.Behind != 0 {
				t.Errorf("%s: positions %v, end %v, %d behind", s.Name, all.At, all.End, all.Behind)
			}
			if time.Since(all.EndTime).Abs() > 24*time.Hour {
				t.Errorf("%s: last record written at %v", s.Name, all.EndTime)
			}
			equal(t, s.Name+" behind the first", read(t, open(t, r, s, all.At[0]), records(1)).Values, []string{fmt.Sprint(p, "b")})
		}
	})
}

// TestBatches checks that batches are bounded, and that nothing of one fetch is lost
// between two batches.
func TestBatches(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		topic := b.topic(1, nil)
		want := count(0, 20_000)
		b.write(topic, 0, want...)
		r := b.reader(t, kafka.Topic[string, string]{Name: topic})
		c := open(t, r, splits(t, r)[0], dataflow.Position{})
		var got []string
		for len(got) < len(want) {
			x := read(t, c, records(1))
			if len(x.Values) > 8192 {
				t.Fatalf("%d records at once", len(x.Values))
			}
			got = append(got, x.Values...)
			if behind := int64(len(want) - len(got)); x.Behind != behind {
				t.Fatalf("%d behind after %d records, want %d", x.Behind, len(got), behind)
			}
		}
		equal(t, "values", got, want)
	})
}

func TestForgottenRecordsAreAGap(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		topic := b.topic(1, nil)
		b.write(topic, 0, count(0, 50)...)
		r := b.reader(t, kafka.Topic[string, string]{Name: topic})
		s := splits(t, r)[0]
		b.forget(topic, 0, 30)
		if _, err := r.Open(t.Context(), s, dataflow.Position{Major: 10}); !errors.Is(err, connect.ErrGap) || !strings.Contains(err.Error(), "10 to 29") {
			t.Errorf("behind offset 9: %v, want ErrGap for the offsets 10 to 29", err)
		}
		equal(t, "behind offset 29", read(t, open(t, r, s, dataflow.Position{Major: 30}), records(20)).Values, count(30, 50))
		equal(t, "from the beginning", read(t, open(t, r, s, dataflow.Position{}), records(20)).Values, count(30, 50))
	})
}

// TestForgottenWhileReading deletes records that a cursor has not fetched yet, while it
// reads.
func TestForgottenWhileReading(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		topic := b.topic(1, nil)
		for i := range 400 { // as batches of their own: a client fetches at least one batch, and starts before records are deleted
			b.write(topic, 0, fmt.Sprint(i))
		}
		r := b.reader(t, kafka.Topic[string, string]{Name: topic, Client: []kgo.Opt{kgo.FetchMaxPartitionBytes(1), kgo.FetchMaxBytes(1)}})
		c := open(t, r, splits(t, r)[0], dataflow.Position{})
		b.forget(topic, 0, 399)
		for n := 0; ; {
			var x connect.Batch[string, string]
			x.Reset()
			err := c.Next(t.Context(), &x)
			n += len(x.Values)
			if err == nil && n < 399 {
				continue
			}
			if want := fmt.Sprintf("offsets %d to 398 ", n); !errors.Is(err, connect.ErrGap) || !strings.Contains(err.Error(), want) {
				t.Errorf("after %d records: %v, want ErrGap for the %s", n, err, want)
			}
			break
		}
	})
}

func reopen(t *testing.T, r connect.Reader[string, string], after dataflow.Position) error {
	c, err := r.Open(t.Context(), splits(t, r)[0], after)
	if err != nil {
		return err
	}
	defer c.Close()
	return fails(t.Context(), c)
}

// TestShorterThanTheFloorIsAGap checks that a partition that ends before the last record
// read has lost records.
func TestShorterThanTheFloorIsAGap(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		topic := b.topic(1, nil)
		b.write(topic, 0, count(0, 5)...)
		r := b.reader(t, kafka.Topic[string, string]{Name: topic})
		for _, after := range []dataflow.Position{{Major: 9}, {Major: 9, Minor: 1}} {
			if err := reopen(t, r, after); !errors.Is(err, connect.ErrGap) || !strings.Contains(err.Error(), "offset") {
				t.Errorf("behind %v: %v, want ErrGap", after, err)
			}
		}
	})
}

func TestTopicMadeAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		topic := b.topic(2, nil)
		b.write(topic, 0, "a", "b")
		r := b.reader(t, kafka.Topic[string, string]{Name: topic, Client: []kgo.Opt{kgo.MetadataMinAge(50 * time.Millisecond)}})
		before := splits(t, r)
		c := open(t, r, before[0], dataflow.Position{})
		equal(t, "before", read(t, c, records(2)).Values, []string{"a", "b"})
		b.remake(topic, 2)
		b.write(topic, 0, "c")
		var after []connect.Split
		for after = splits(t, r); after[0].ID == before[0].ID; after = splits(t, r) {
		}
		for _, s := range after {
			if slices.ContainsFunc(before, func(x connect.Split) bool { return x.ID == s.ID }) {
				t.Errorf("%s has the id %s again", s.Name, s.ID)
			}
		}
		if err := fails(t.Context(), c); !errors.Is(err, io.EOF) {
			t.Errorf("cursor of the topic before: %v, want io.EOF", err)
		}
		old := open(t, r, before[1], dataflow.Position{Major: 17})
		if err := fails(t.Context(), old); !errors.Is(err, io.EOF) {
			t.Errorf("opening a split of the topic before: %v, want io.EOF", err)
		}
		equal(t, "after", read(t, open(t, r, after[0], dataflow.Position{}), records(1)).Values, []string{"c"})
	})
}

func TestPartitionsThatCome(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		topic := b.topic(2, nil)
		r := b.reader(t, kafka.Topic[string, string]{Name: topic})
		fixed := b.reader(t, kafka.Topic[string, string]{Name: topic, Partitions: 2})
		before := splits(t, r)
		splits(t, fixed)
		if _, err := b.admin.CreatePartitions(t.Context(), 1, topic); err != nil {
			t.Fatal(err)
		}
		after := splits(t, r)
		for len(after) < 3 { // until the broker knows
			after = splits(t, r)
		}
		if len(before) != 2 || !slices.Equal(after[:2], before) {
			t.Errorf("splits %v, and before %v", after, before)
		}
		var err error
		for err == nil { // until it knows as well
			_, err = fixed.Splits(t.Context())
		}
		if !errors.Is(err, connect.ErrRekeyed) || !strings.Contains(err.Error(), "3 partitions") {
			t.Errorf("for two partitions: %v, want ErrRekeyed", err)
		}
		b.cl.PurgeTopicsFromClient(topic)
		b.write(topic, 2, "x")
		equal(t, "the partition that has come", read(t, open(t, r, after[2], dataflow.Position{}), records(1)).Values, []string{"x"})
	})
}

func TestPoison(t *testing.T) {
	b := fake(t)
	topic := b.topic(1, nil)
	b.write(topic, 0, "a", "\xffb", "c", "panic")
	r := b.reader(t, kafka.Topic[string, string]{Name: topic, Decode: func(r *kgo.Record) (string, string, error) {
		if string(r.Value) == "panic" {
			panic("no text")
		}
		return text(r)
	}})
	s := splits(t, r)[0]
	all := read(t, open(t, r, s, dataflow.Position{}), records(4))
	equal(t, "values", all.Values, []string{"a", "c"})
	if len(all.Bad) != 2 || all.Bad[0].At.Major != 2 || all.Bad[1].At.Major != 4 || string(all.Bad[0].Raw) != "\xffb" || all.Bad[0].Split != s.ID || all.Bad[0].Cause != errNoText.Error() || !strings.HasPrefix(all.Bad[1].Cause, "decoding it panicked: no text\n") {
		t.Errorf("bad records %+v", all.Bad)
	}
	if all.End.Major != 4 || all.Behind != 0 {
		t.Errorf("end %v, %d behind", all.End, all.Behind)
	}
}

// TestDecodeAgain checks that no record is lost or becomes bad when a decoder fails for a
// while.
func TestDecodeAgain(t *testing.T) {
	b := fake(t)
	topic := b.topic(1, nil)
	want := count(0, 20)
	b.write(topic, 0, want...)
	down := errors.New("registry is down")
	tried := 0
	r := b.reader(t, kafka.Topic[string, string]{Name: topic, Decode: func(r *kgo.Record) (string, string, error) {
		if tried++; tried%3 != 0 {
			return "", "", fmt.Errorf("decoding: %w", connect.Retry(down))
		}
		return text(r)
	}})
	c := open(t, r, splits(t, r)[0], dataflow.Position{})
	var got []string
	for failed := 0; len(got) < len(want); {
		var x connect.Batch[string, string]
		x.Reset()
		err := c.Next(t.Context(), &x)
		got = append(got, x.Values...)
		switch {
		case err != nil && !errors.Is(err, down):
			t.Fatal(err)
		case err != nil && len(x.Values) > 0:
			t.Fatal("records that came with an error")
		case err != nil:
			failed++
		case len(x.Bad) > 0:
			t.Fatalf("bad records %v", x.Bad)
		}
		if failed > 100 {
			t.Fatal("no record is ever given")
		}
	}
	equal(t, "values", got, want)
}

// TestTombstones checks that a record without a value does not end anything.
func TestTombstones(t *testing.T) {
	b := fake(t)
	topic := b.topic(1, nil)
	if err := b.cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte("k")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	gone := 0
	r := b.reader(t, kafka.Topic[string, string]{Name: topic, Decode: func(r *kgo.Record) (string, string, error) {
		if r.Value == nil {
			gone++
		}
		return string(r.Key), "", nil
	}})
	all := read(t, open(t, r, splits(t, r)[0], dataflow.Position{}), records(1))
	equal(t, "keys", all.Keys, []string{"k"})
	if gone != 1 {
		t.Error("the value of a tombstone is not nil")
	}
}

func TestFrom(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		topic := b.topic(1, nil)
		start := time.Now().Add(-24 * time.Hour).Truncate(time.Second) // brokers delete records that are a week old
		for i := range 10 {
			if err := b.cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: fmt.Append(nil, i), Timestamp: start.Add(time.Duration(i) * time.Minute)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		r := b.reader(t, kafka.Topic[string, string]{Name: topic, From: start.Add(7 * time.Minute)})
		s := splits(t, r)[0]
		equal(t, "without a floor", read(t, open(t, r, s, dataflow.Position{}), records(3)).Values, count(7, 10))
		equal(t, "with one", read(t, open(t, r, s, dataflow.Position{Major: 2}), records(8)).Values, count(2, 10))
		late := b.reader(t, kafka.Topic[string, string]{Name: topic, From: start.Add(time.Hour)})
		c := open(t, late, s, dataflow.Position{})
		if err := b.cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("new"), Timestamp: start.Add(2 * time.Hour)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		equal(t, "after the last record", read(t, c, records(1)).Values, []string{"new"})
	})
}

func TestNextEndsWithItsContext(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		topic := b.topic(1, nil)
		r := b.reader(t, kafka.Topic[string, string]{Name: topic})
		c := open(t, r, splits(t, r)[0], dataflow.Position{})
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		if err := fails(ctx, c); !errors.Is(err, why) {
			t.Errorf("%v, want the cause of the context", err)
		}
		b.write(topic, 0, "a") // and the cursor can be used again
		equal(t, "after that", read(t, c, records(1)).Values, []string{"a"})
	})
}

// TestGroupFollows checks that the durable position is committed to a group, and that a
// reader does not use the group's offsets.
func TestGroupFollows(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		topic := b.topic(1, nil)
		b.write(topic, 0, count(0, 10)...)
		r := b.reader(t, kafka.Topic[string, string]{Name: topic, Group: "lag of " + topic})
		s := splits(t, r)[0]
		c := open(t, r, s, dataflow.Position{})
		for i := uint64(1); i <= 9; i++ {
			if err := c.Confirm(t.Context(), dataflow.Position{Major: i}); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		told, err := b.admin.FetchOffsets(t.Context(), "lag of "+topic)
		if err != nil {
			t.Fatal(err)
		}
		if o, _ := told.Lookup(topic, 0); o.At != 9 {
			t.Errorf("the group is at offset %d, want 9", o.At)
		}
		equal(t, "values", read(t, open(t, r, s, dataflow.Position{}), records(10)).Values, count(0, 10))
	})
}

func TestOptions(t *testing.T) {
	if _, err := (kafka.Topic[string, string]{Seeds: []string{"localhost:9"}, Name: "x"}).Reader(); err == nil || !strings.Contains(err.Error(), "Decode") {
		t.Errorf("without Decode: %v", err)
	}
	r, err := kafka.Topic[string, string]{Seeds: []string{"localhost:9"}, Name: "x", Decode: text}.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, id := range []string{"", "x", "kafka/", "kafka/AAAA/0", "kafka/AAAAAAAAAAAAAAAAAAAAAA/x", "js/AAAAAAAAAAAAAAAAAAAAAA/1"} {
		if _, err := r.Open(t.Context(), connect.Split{ID: id}, dataflow.Position{}); err == nil || !strings.Contains(err.Error(), "not the id of a split") {
			t.Errorf("opening %q: %v", id, err)
		}
	}
}
