package kafka_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/kafka"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/keyedstream"
)

// copies is a flow that outputs the records that it receives, and the dead letters.
type copies struct {
	in      *connect.Port[string, string, dataflow.TotalOrder, dataflow.ExactlyOnce]
	dead    *connect.DeadLetterPort
	out     *dataflow.OutputPort[dataflow.Entry[string, string]]
	letters *dataflow.OutputPort[dataflow.Entry[string, connect.Poison]]
}

func buildCopies(f *dataflow.Flow) (p copies) {
	at := dataflow.At[reads](f)
	in, records := connect.Input[string, string](at, "records")
	dead, letters := connect.DeadLetters(at, "letters")
	return copies{in, dead, keyedstream.Output(records, "out"), keyedstream.Output(letters, "letters")}
}

// copier starts the flow on a history in a folder and reads a topic into it.
func (b *broker) copier(t *testing.T, dir string, topic kafka.Topic[string, string], opts connect.Options, buffer int) (*durable.App[copies], *connect.Pumps) {
	t.Helper()
	app, err := durable.Start(t.Context(), buildCopies, durable.Options{Log: disklog.Dir(dir), Logger: slog.New(slog.DiscardHandler), Flow: dataflow.Options{Buffer: buffer}})
	if err != nil {
		t.Fatal(err)
	}
	topic.Seeds = b.seeds
	if topic.Decode == nil {
		topic.Decode = text
	}
	r, err := topic.Reader()
	if err != nil {
		t.Fatal(err)
	}
	opts.DeadLetters = app.Ports.dead
	pumps, err := connect.Attach(t.Context(), app, connect.BySplit(r), app.Ports.in, opts)
	if err != nil {
		t.Fatal(err)
	}
	return app, pumps
}

// take receives n records, by split.
func take(t *testing.T, app *durable.App[copies], n int) map[string][]string {
	t.Helper()
	got := map[string][]string{}
	for range n {
		d, err := app.Ports.out.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got[d.Value.Key] = append(got[d.Value.Key], d.Value.Value)
		d.Ack()
	}
	return got
}

func stop(t *testing.T, app *durable.App[copies], pumps *connect.Pumps) {
	t.Helper()
	if err := pumps.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if err := app.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

// Case 11: records that were deleted before the flow read them are one dead letter that names them, and the flow continues after
// them.
func TestSkippedGapIsALetter(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		topic, dir := b.topic(1, nil), t.TempDir()
		b.write(topic, 0, count(0, 10)...)
		app, pumps := b.copier(t, dir, kafka.Topic[string, string]{Name: topic}, connect.Options{}, 0)
		equal(t, "before", take(t, app, 10)[topic+"/0"], count(0, 10))
		stop(t, app, pumps)
		b.write(topic, 0, count(10, 50)...)
		b.forget(topic, 0, 30)

		app, pumps = b.copier(t, dir, kafka.Topic[string, string]{Name: topic}, connect.Options{SkipGaps: true}, 0)
		var got []string // perhaps with what was acknowledged just before the stop
		for len(got) == 0 || got[len(got)-1] != "49" {
			got = append(got, take(t, app, 1)[topic+"/0"]...)
		}
		again := max(0, len(got)-20)
		equal(t, "behind the gap", got[again:], count(30, 50))
		equal(t, "before it", got[:again], count(10-again, 10))
		d, err := app.Ports.letters.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if x := d.Value.Value; !strings.Contains(x.Cause, "10 to 29") || d.Value.Key != "records" {
			t.Errorf("letter for %q: %s; want that the offsets 10 to 29 are gone", d.Value.Key, x.Cause)
		}
		stop(t, app, pumps)
	})
}

// Case 20: a flow whose output nobody reads takes a bounded number of the records of a large topic, and all of them once the
// output is read.
func TestFlowThatIsFull(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		const all = 200_000
		topic := b.topic(1, nil)
		value := func(i int) string { return fmt.Sprintf("%0200d", i) }
		var want []string
		for i := range all {
			want = append(want, value(i))
		}
		b.write(topic, 0, want...)
		var decoded atomic.Int64
		app, pumps := b.copier(t, t.TempDir(), kafka.Topic[string, string]{Name: topic, Decode: func(r *kgo.Record) (string, string, error) {
			decoded.Add(1)
			return text(r)
		}}, connect.Options{}, 1000)
		before := int64(-1) // until nothing comes for a second, or everything has come
		for n := decoded.Load(); n != before && n < all || n == 0; n = decoded.Load() {
			before = n
			<-time.After(time.Second)
		}
		if n := decoded.Load(); n >= all {
			t.Errorf("all %d records were read while nobody took any", n)
		} else {
			t.Logf("%d records were read of %d", n, all)
		}
		equal(t, "records", take(t, app, all)[topic+"/0"], want)
		stop(t, app, pumps)
	})
}

// Case 21: one of four splits is blocked, and the others continue.
func TestSplitThatIsBlocked(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		const each = 20_000
		topic := b.topic(4, nil)
		want := count(0, each)
		for p := range int32(4) {
			b.write(topic, p, want...)
		}
		blocked := make(chan struct{})
		open := sync.OnceFunc(func() { close(blocked) })
		defer open()
		app, pumps := b.copier(t, t.TempDir(), kafka.Topic[string, string]{Name: topic, Decode: func(r *kgo.Record) (string, string, error) {
			if r.Partition == 0 && r.Offset > 100 {
				<-blocked
			}
			return text(r)
		}}, connect.Options{}, 0)
		got := map[string][]string{}
		for done := 0; done < 3; {
			for s, vs := range take(t, app, 1) {
				got[s] = append(got[s], vs...)
				if len(got[s]) == each {
					done++
				}
			}
		}
		if n := len(got[topic+"/0"]); n == each {
			t.Error("the split that is blocked was read")
		}
		open()
		for s, vs := range take(t, app, each-len(got[topic+"/0"])) {
			got[s] = append(got[s], vs...)
		}
		for p := range 4 {
			equal(t, fmt.Sprint("partition ", p), got[fmt.Sprintf("%s/%d", topic, p)], want)
		}
		stop(t, app, pumps)
	})
}

// TestCompression checks that compressed records arrive unchanged, at the positions of uncompressed ones, and that a sink
// compresses as configured.
func TestCompression(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		for name, codec := range map[string]kgo.CompressionCodec{
			"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
		} {
			topic := b.topic(1, nil)
			var want []string
			for i := range 2000 {
				want = append(want, strings.Repeat(fmt.Sprint(i, " "), 20))
			}
			dial(t, b.seeds, nil, kgo.ProducerBatchCompression(codec)).write(topic, 0, want[:1000]...)
			s := b.sink(topic)
			s.Client = []kgo.Opt{kgo.ProducerBatchCompression(codec)}
			put(t, begin(t, s, connect.Lane{Flow: topic, Output: "out"}, 0), 1, want[1000:]...)
			r := b.reader(t, kafka.Topic[string, string]{Name: topic})
			split := splits(t, r)[0]
			all := read(t, open(t, r, split, dataflow.Position{}), records(2000))
			equal(t, name, all.Values, want)
			// Start in the middle of a compressed batch.
			equal(t, name+" from the middle", read(t, open(t, r, split, all.At[499]), records(1500)).Values, want[500:])
			if !slices.IsSortedFunc(all.At, func(a, b dataflow.Position) int {
				if a.After(b) {
					return 1
				}
				return -1
			}) || all.At[999].Major != 1000 {
				t.Errorf("%s: positions do not count records", name)
			}
		}
	})
}
