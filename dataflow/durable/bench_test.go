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
	"github.com/millrace/millrace/singleton"
)

func quiet(o Options) Options {
	o.Logger = slog.New(slog.DiscardHandler)
	return o
}

// BenchmarkSend measures durable records: each of many goroutines sends the next one
// when the last is kept.
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

// BenchmarkSendBatch measures durable records that a few goroutines send many at a time.
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

// BenchmarkRoundTrip measures a request that is put and its answer, both durable.
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
