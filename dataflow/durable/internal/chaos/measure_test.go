package chaos

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

// A place is where a benchmark's flow stores its history.
type place struct {
	name     string
	replicas int // 0 means the embedded server
	urls     []string
}

var places = []place{{name: "embedded"}, {name: "R1", replicas: 1}, {name: "R3", replicas: 3}}

// options starts the servers, if any, and returns the options of a flow that uses them.
func (p *place) options(b *testing.B) durable.Options {
	o := durable.Options{Name: appName, Partitions: partitions, KeepFor: durable.Forever, SnapshotAge: time.Hour, SnapshotBytes: 1 << 30,
		LeaveWithin: time.Second, Logger: slog.New(slog.DiscardHandler)}
	if p.replicas == 0 {
		o.Log = natslog.Embedded(b.TempDir())
		return o
	}
	p.urls = startServers(b, p.replicas).URLs("")
	o.Log = natslog.Servers(natslog.Options{URLs: p.urls, Replicas: p.replicas, AssumeDurable: true})
	return o
}

// started starts the flow and stops it at the end of the benchmark.
func started(b *testing.B, o durable.Options) *durable.App[ports] {
	b.Helper()
	app := start(b, build, o)
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		app.Stop(ctx)
	})
	return app
}

// warm makes requests until every partition has very likely answered one.
func warm(b *testing.B, app *durable.App[ports], name string) {
	b.Helper()
	l := startLoad(app.Ports, name, 8*partitions)
	eventually(b, func(context.Context) error {
		if n := l.number.Load(); n < 40*partitions {
			return fmt.Errorf("%d requests", n)
		}
		return nil
	})
	l.finish(b)
}

// each calls do with 0 to n-1 from the given number of goroutines and returns the calls
// per second.
func each(n, goroutines int, do func(i int)) float64 {
	var next atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range goroutines {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wg.Wait()
	return float64(n) / time.Since(began).Seconds()
}

// BenchmarkThroughput measures durable records and answered calls per second. For
// comparison it reports how many messages of 256 bytes the same servers accept per
// second.
func BenchmarkThroughput(b *testing.B) {
	for _, p := range places {
		for _, senders := range []int{256, 4096} {
			b.Run(fmt.Sprintf("%s/senders=%d", p.name, senders), func(b *testing.B) {
				o := p.options(b)
				app := started(b, o)
				warm(b, app, "w")
				b.ResetTimer()
				events := each(b.N, senders, func(i int) {
					if err := app.Ports.votes.Send(b.Context(), fmt.Sprint("e", i/quorum), vote{uint64(i), i % quorum, 1}); err != nil {
						b.Error(err)
					}
				})
				n := max(b.N/quorum, 1)
				calls := each(n, senders, func(i int) { ask(b, app.Ports, fmt.Sprint("c", i)) })
				b.StopTimer()
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(events, "events/s")
				b.ReportMetric(calls, "calls/s")
				b.ReportMetric(publishRate(b, app, p, senders), "nats-publishes/s")
			})
		}
	}
}

// ask makes a request and waits for its answer.
func ask(b *testing.B, p ports, key string) {
	var wg sync.WaitGroup
	for voter := range quorum {
		wg.Go(func() {
			if err := p.votes.Send(b.Context(), key, vote{0, voter, 1}); err != nil {
				b.Error(err)
			}
		})
	}
	if _, err := p.released.Await(b.Context(), key); err != nil {
		b.Error(err)
	}
	wg.Wait()
}

// publishRate measures plain publishes per second, with window of them in flight.
func publishRate(b *testing.B, app *durable.App[ports], p place, window int) float64 {
	b.Helper()
	var nc *nats.Conn
	if p.replicas == 0 {
		if err := app.Stop(soon(b)); err != nil {
			b.Fatal(err)
		}
		s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, JetStream: true, StoreDir: b.TempDir(), SyncAlways: true, MaxPayload: 8 << 20})
		if err != nil {
			b.Fatal(err)
		}
		s.Start()
		defer s.Shutdown()
		if nc, err = nats.Connect("", nats.InProcessServer(s)); err != nil {
			b.Fatal(err)
		}
		defer nc.Close()
	} else {
		var err error
		if nc, err = nats.Connect(strings.Join(p.urls, ",")); err != nil {
			b.Fatal(err)
		}
		defer nc.Close()
	}
	js, err := natsjs.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	ctx := soon(b)
	if _, err := js.CreateStream(ctx, natsjs.StreamConfig{Name: "PUB", Subjects: []string{"pub.>"}, Replicas: max(p.replicas, 1)}); err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 256)
	return each(5000, window, func(i int) {
		if _, err := js.Publish(ctx, fmt.Sprint("pub.", i%partitions), data); err != nil {
			b.Error(err)
		}
	})
}

// BenchmarkLatency measures a durable request with its durable answer, on the embedded
// server and on three replicas. The callers are in the process that owns the partitions
// or in one that owns none.
func BenchmarkLatency(b *testing.B) {
	for _, p := range []place{places[0], places[2]} {
		for _, client := range []bool{false, true} {
			for _, concurrent := range []int{1, 16} {
				if client && p.replicas == 0 {
					continue
				}
				b.Run(fmt.Sprintf("%s/client=%v/callers=%d", p.name, client, concurrent), func(b *testing.B) {
					o := p.options(b)
					app := started(b, o)
					warm(b, app, "w")
					if client {
						o.Client = true
						app = started(b, o)
						warm(b, app, "x")
					}
					var latency durations
					b.ResetTimer()
					calls := each(b.N, concurrent, func(i int) {
						began := time.Now()
						ask(b, app.Ports, fmt.Sprint("l", i))
						latency.add(time.Since(began))
					})
					b.StopTimer()
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(calls, "calls/s")
					b.ReportMetric(float64(latency.at(0.5).Microseconds()), "p50-µs")
					b.ReportMetric(float64(latency.at(0.99).Microseconds()), "p99-µs")
				})
			}
		}
	}
}

// BenchmarkRecovery measures how long a process takes to start after another one was
// killed, by the number of steps since the snapshot and by the number of keys in the
// snapshot. It creates the data again for each run, so run it with -benchtime 1x.
func BenchmarkRecovery(b *testing.B) {
	for _, steps := range []uint64{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint("steps=", steps), func(b *testing.B) {
			o := places[0].options(b)
			o.Partitions = 1
			app := started(b, o)
			for i := uint64(0); app.Metrics().Steps < steps; i++ {
				if err := app.Ports.votes.Send(b.Context(), fmt.Sprint("k", i/quorum), vote{i, int(i % quorum), 1}); err != nil {
					b.Fatal(i, err, app.Err())
				}
			}
			recover(b, app, o, false)
		})
	}
	for _, keys := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			o := places[0].options(b)
			o.Partitions, o.LeaveWithin = 1, time.Minute
			app := started(b, o)
			each(keys, 4096, func(i int) {
				if err := app.Ports.votes.Send(b.Context(), fmt.Sprint("k", i), vote{uint64(i), 0, 1}); err != nil {
					b.Error(err)
				}
			})
			recover(b, app, o, true)
		})
	}
}

// recover stops an app, with a final snapshot or as a crash does, and measures restarts.
func recover(b *testing.B, app *durable.App[ports], o durable.Options, snapshot bool) {
	b.Helper()
	end := func(snapshot bool) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if !snapshot {
			cancel()
		}
		app.Stop(ctx)
	}
	end(snapshot)
	size := app.Metrics().LastSnapshotSize
	var restore, start durations
	b.ResetTimer()
	for range b.N {
		began := time.Now()
		app = started(b, o)
		start.add(time.Since(began))
		restore.add(app.Metrics().LastRestore)
		b.StopTimer()
		end(false)
		b.StartTimer()
	}
	b.StopTimer()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(restore.at(0.5).Milliseconds()), "restore-ms")
	b.ReportMetric(float64(start.at(0.5).Milliseconds()), "start-ms")
	b.ReportMetric(float64(size)/(1<<20), "snapshot-MiB")
}
