package kafka_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/kafka"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// A run reads half a gigabyte, so that rates are those that last: a shorter one would be over before a disk is behind.
const (
	benchParts   = 4
	benchRecords = 2_000_000
	benchSize    = 256
)

// A total summarizes what was read of a split.
type total struct{ N, Sum int64 }

type totals struct {
	in  *connect.Port[string, []byte, dataflow.TotalOrder, dataflow.ExactlyOnce]
	out *dataflow.EntryOutputPort[string, total]
}

type reading struct{ dataflow.Process }

func buildTotals(f *dataflow.Flow) totals {
	in, records := connect.Input[string, []byte](dataflow.At[reading](f), "records")
	sums := keyedstream.FoldEarlyStop(records, func() total { return total{} }, func(t *total, v []byte) bool {
		t.N++
		t.Sum += int64(binary.BigEndian.Uint64(v))
		return t.N == benchRecords/benchParts
	})
	return totals{in, keyedsingleton.Output(sums, "totals")}
}

// value returns an incompressible value that begins with i.
func value(i int) []byte {
	noise := rand.New(rand.NewPCG(1, uint64(i)))
	v := binary.BigEndian.AppendUint64(nil, uint64(i))
	for len(v) < benchSize {
		v = binary.BigEndian.AppendUint64(v, noise.Uint64())
	}
	return v
}

func BenchmarkSource(b *testing.B) {
	at := real(b)
	topic := at.topic(benchParts, nil)
	var failed kgo.FirstErrPromise
	for i := range benchRecords {
		at.cl.Produce(b.Context(), &kgo.Record{Topic: topic, Partition: int32(i % benchParts), Value: value(i)}, failed.Promise())
	}
	if err := failed.Err(); err != nil {
		b.Fatal(err)
	}
	b.Run("raw", func(b *testing.B) {
		var w watch
		b.ReportAllocs()
		for b.Loop() {
			readRaw(b, &w, at, topic, func(kgo.Fetches) {})
		}
		b.ReportMetric(w.rate()/1000, "krecords/s")
	})
	// beside runs the raw client and f alternately, since the speed of a machine changes within minutes, and reports the rate of f
	// and its ratio to the raw client's.
	beside := func(b *testing.B, f func(w *watch)) {
		var raw, ours watch
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			readRaw(b, &raw, at, topic, func(kgo.Fetches) {})
			b.StartTimer()
			f(&ours)
		}
		b.ReportMetric(ours.rate()/1000, "krecords/s")
		b.ReportMetric(ours.rate()/raw.rate(), "of-raw")
	}
	// The least that a durable program does: append what was fetched to a file and sync it.
	b.Run("file", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "log"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		var buffer []byte
		beside(b, func(w *watch) {
			readRaw(b, w, at, topic, func(fs kgo.Fetches) {
				buffer = buffer[:0]
				fs.EachRecord(func(r *kgo.Record) {
					buffer = append(binary.AppendUvarint(buffer, uint64(len(r.Value))), r.Value...)
				})
				if _, err := f.Write(buffer); err != nil {
					b.Fatal(err)
				}
				if err := f.Sync(); err != nil {
					b.Fatal(err)
				}
			})
		})
	})
	b.Run("millrace=memory", func(b *testing.B) {
		beside(b, func(w *watch) {
			f := dataflow.New()
			ports := buildTotals(f)
			app, err := dataflow.Start(b.Context(), f)
			if err != nil {
				b.Fatal(err)
			}
			pump(b, w, at, topic, app, ports)
			if err := app.Stop(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	})
	durably := func(b *testing.B, do func(*durable.App[totals])) {
		dir, err := os.MkdirTemp(b.TempDir(), "")
		if err != nil {
			b.Fatal(err)
		}
		app, err := durable.Start(b.Context(), buildTotals, durable.Options{Log: disklog.Dir(dir), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		do(app)
		if err := app.Stop(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := os.RemoveAll(dir); err != nil { // b.TempDir would keep those of all runs
			b.Fatal(err)
		}
	}
	// The rate of a durable flow without a source, in batches of the same size.
	b.Run("durable-alone", func(b *testing.B) {
		beside(b, func(w *watch) {
			durably(b, func(app *durable.App[totals]) {
				w.begin()
				fill(b, app.Ports)
				w.end()
			})
		})
	})
	b.Run("millrace=durable", func(b *testing.B) {
		beside(b, func(w *watch) {
			durably(b, func(app *durable.App[totals]) { pump(b, w, at, topic, app, app.Ports) })
		})
	})
}

// readRaw reads the topic with the client alone and calls fetched with what it has fetched.
func readRaw(b *testing.B, w *watch, at *broker, topic string, fetched func(kgo.Fetches)) {
	from := map[int32]kgo.Offset{}
	for p := range int32(benchParts) {
		from[p] = kgo.NewOffset().At(0)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(at.seeds...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	sum := int64(0)
	for n := 0; n < benchRecords; {
		fs := cl.PollFetches(b.Context())
		w.begin()
		if err := fs.Err(); err != nil {
			b.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			n++
			sum += int64(binary.BigEndian.Uint64(r.Value))
		})
		fetched(fs)
	}
	w.end()
	checkSum(b, sum)
}

// A reference is the rate of the raw client in records a second: the best of its runs, because a broker that has just started is
// slow.
type reference float64

// report reports a rate and, except for the benchmark called raw, its ratio to the reference.
func (r *reference) report(b *testing.B, rate float64) {
	b.ReportMetric(rate/1000, "krecords/s")
	if strings.HasSuffix(b.Name(), "/raw") {
		*r = max(*r, reference(rate))
		return
	}
	b.ReportMetric(rate/float64(*r), "of-raw")
}

// A watch measures from the first record on. The time before it, such as finding the splits, does not depend on the number of
// records.
type watch struct {
	once  sync.Once
	from  time.Time
	total time.Duration
	runs  int
}

func (w *watch) begin() { w.once.Do(func() { w.from = time.Now() }) }

func (w *watch) end() {
	w.total += time.Since(w.from)
	w.runs++
	w.once = sync.Once{}
}

// rate returns the records a second.
func (w *watch) rate() float64 { return float64(w.runs*benchRecords) / w.total.Seconds() }

// pump reads the topic into a flow until it has read all of it.
func pump(b *testing.B, w *watch, at *broker, topic string, app connect.App, ports totals) {
	r, err := kafka.Topic[struct{}, []byte]{Seeds: at.seeds, Name: topic, Decode: func(r *kgo.Record) (struct{}, []byte, error) {
		w.begin()
		return struct{}{}, r.Value, nil
	}}.Reader()
	if err != nil {
		b.Fatal(err)
	}
	pumps, err := connect.Attach(b.Context(), app, connect.BySplit(r), ports.in, connect.Options{})
	if err != nil {
		b.Fatal(err)
	}
	sum := int64(0)
	for p := range benchParts {
		t, err := ports.out.Await(b.Context(), fmt.Sprintf("%s/%d", topic, p))
		if err != nil {
			b.Fatal(err)
		}
		sum += t.Sum
	}
	w.end()
	checkSum(b, sum)
	if err := pumps.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// fill sends a flow what pump would read.
func fill(b *testing.B, ports totals) {
	const size = 4096
	var group sync.WaitGroup
	for p := range benchParts {
		group.Go(func() {
			split := fmt.Sprint(p)
			var batch connect.Batch[string, []byte]
			for i := range benchRecords / benchParts {
				batch.Add(split, value(i*benchParts+p), dataflow.Position{Major: uint64(i) + 1, Minor: 1})
				if len(batch.At) == size || i == benchRecords/benchParts-1 {
					if err := ports.in.Send(b.Context(), split, &batch); err != nil {
						b.Error(err)
						return
					}
					batch.Reset()
				}
			}
		})
	}
	group.Wait()
	for p := range benchParts {
		if _, err := ports.out.Await(b.Context(), fmt.Sprint(p)); err != nil {
			b.Fatal(err)
		}
	}
}

func checkSum(b *testing.B, got int64) {
	if want := int64(benchRecords) * (benchRecords - 1) / 2; got != want {
		b.Fatalf("the sum is %d, want %d", got, want)
	}
}
