package durable

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

func quiet(o Options) Options {
	o.Logger = slog.New(slog.DiscardHandler)
	return o
}

// BenchmarkSend measures durable records. Each of many goroutines sends its next record when the
// last is durable.
func BenchmarkSend(b *testing.B) {
	for _, senders := range []int{1, 64, 1024} {
		b.Run(fmt.Sprint("embedded/senders=", senders), func(b *testing.B) {
			app := startBench(b, quorumProcess, quiet(Options{Log: natslog.Embedded(b.TempDir())}))
			var n atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for range senders {
				wg.Go(func() {
					for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
						if err := app.Ports.votes.Send(context.Background(), fmt.Sprint("r", i/3), 1); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

type sumPorts struct {
	in  *dataflow.SharedInputPort[int]
	sum *dataflow.SingletonOutputPort[int]
}

func summing(f *dataflow.Flow) sumPorts {
	in, xs := dataflow.SharedInput[int](dataflow.At[server](f), "in")
	return sumPorts{in, singleton.Output(dataflow.Sum(xs), "sum")}
}

// BenchmarkSendBatch measures durable records that a few goroutines send in batches.
func BenchmarkSendBatch(b *testing.B) {
	const batch, senders = 512, 4
	app := startBench(b, summing, quiet(Options{Log: natslog.Embedded(b.TempDir())}))
	var n atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range senders {
		wg.Go(func() {
			xs := make([]int, batch)
			for n.Add(batch) <= int64(b.N) {
				if _, err := app.Ports.in.SendBatch(context.Background(), xs); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkLines measures durable lines of one producer that waits for each batch before it makes
// the next one. A batch of 1 is a Send or a Put.
func BenchmarkLines(b *testing.B) {
	for name, build := range map[string]func(f *dataflow.Flow) lineInputs{
		"process": func(f *dataflow.Flow) lineInputs { return lineInputsAt(dataflow.At[server](f)) },
		"cluster": func(f *dataflow.Flow) lineInputs { return lineInputsAt(dataflow.At[members](f)) },
	} {
		for _, port := range []string{"InputPort", "KeyedInputPort", "EntryInputPort"} {
			for _, size := range []int{1, 256, 1000} {
				b.Run(fmt.Sprintf("embedded/%s/%s/batch=%d", name, port, size), func(b *testing.B) {
					app := startBench(b, build, quiet(Options{Log: natslog.Embedded(b.TempDir())}))
					send := app.Ports.sends(b.Context())[port]
					ks, vs := make([]string, 0, size), make([]string, 0, size)
					b.ResetTimer()
					for sent := 0; sent < b.N; sent += len(ks) {
						ks, vs = ks[:0], vs[:0]
						for i := sent; i < min(sent+size, b.N); i++ {
							ks, vs = append(ks, fmt.Sprint("line ", i)), append(vs, fmt.Sprintf("GET /page/%d HTTP/1.1 200 4711", i))
						}
						if err := send(ks, vs); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
				})
			}
		}
	}
}

// lineInputs are inputs of lines, with and without a key.
type lineInputs struct {
	plain   *dataflow.InputPort[string]
	keyed   *dataflow.KeyedInputPort[string, string]
	entries *dataflow.EntryInputPort[string, string]
}

func lineInputsAt[L dataflow.Location](at L) lineInputs {
	plain, s := dataflow.Input[string](at, "plain")
	dataflow.Fold(s, func() int { return 0 }, func(n *int, line string) { *n += len(line) })
	keyed, ks := keyedstream.Input[string, string](at, "keyed")
	keyedstream.Map(ks, func(line string) int { return len(line) })
	entries, es := keyedsingleton.Input[string, string](at, "entries")
	keyedsingleton.Map(es, func(line string) int { return len(line) })
	return lineInputs{plain, keyed, entries}
}

// sends returns a function for each input that sends it a batch.
func (p lineInputs) sends(ctx context.Context) map[string]func(ks, vs []string) error {
	return map[string]func(ks, vs []string) error{
		"InputPort": func(_, vs []string) (err error) {
			if len(vs) == 1 {
				return p.plain.Send(ctx, vs[0])
			}
			_, err = p.plain.SendBatch(ctx, vs)
			return err
		},
		"KeyedInputPort": func(ks, vs []string) (err error) {
			if len(ks) == 1 {
				return p.keyed.Send(ctx, ks[0], vs[0])
			}
			_, err = p.keyed.SendBatch(ctx, ks, vs)
			return err
		},
		"EntryInputPort": func(ks, vs []string) (err error) {
			if len(ks) == 1 {
				return p.entries.Put(ctx, ks[0], vs[0])
			}
			_, err = p.entries.PutBatch(ctx, ks, vs)
			return err
		},
	}
}

// BenchmarkRoundTrip measures a request and its answer, both durable.
func BenchmarkRoundTrip(b *testing.B) {
	app := startBench(b, quorumProcess, quiet(Options{Log: natslog.Embedded(b.TempDir())}))
	var took []time.Duration
	for i := range b.N {
		k := fmt.Sprint("r", i)
		began := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { app.Ports.votes.Send(context.Background(), k, 1) })
		}
		if _, err := app.Ports.released.Await(context.Background(), k); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
		wg.Wait()
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

func startBench[P any](b *testing.B, build func(*dataflow.Flow) P, o Options) *App[P] {
	app, err := Start(b.Context(), build, o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		app.Stop(ctx)
	})
	return app
}
