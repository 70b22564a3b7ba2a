package natslog_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	jsapi "github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

// BenchmarkAppend appends records of 256 B from 1, 64 and 1024 callers. PublishAsync
// measures the NATS client alone for comparison, with up to 4096 messages in flight.
func BenchmarkAppend(b *testing.B) {
	record := make([]byte, 256)
	for _, callers := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			l := open(b, natslog.Settings{Dir: b.TempDir()})
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			b.ResetTimer()
			for range callers {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if _, err := l.Append(b.Context(), 0, record); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			perSecond(b, "appends/s")
			m := l.Metrics()
			b.ReportMetric(float64(m.Records)/float64(m.Messages), "records/message")
		})
	}
	b.Run("PublishAsync", func(b *testing.B) {
		js := bare(b)
		b.ResetTimer()
		for range b.N {
			if _, err := js.PublishAsync("s.a", record, jsapi.WithStallWait(time.Minute)); err != nil {
				b.Fatal(err)
			}
		}
		<-js.PublishAsyncComplete()
		perSecond(b, "appends/s")
	})
}

// bare starts an embedded server that syncs every write and returns a plain client of it.
func bare(b *testing.B) jsapi.JetStream {
	s, err := server.NewServer(&server.Options{JetStream: true, StoreDir: b.TempDir(), DontListen: true, NoSigs: true, NoLog: true, SyncAlways: true})
	if err != nil {
		b.Fatal(err)
	}
	s.Start()
	b.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		b.Fatal("the server does not start")
	}
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	js, err := jsapi.New(nc, jsapi.WithPublishAsyncMaxPending(4096))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := js.CreateStream(b.Context(), jsapi.StreamConfig{Name: "S", Subjects: []string{"s.>"}}); err != nil {
		b.Fatal(err)
	}
	return js
}

func perSecond(b *testing.B, unit string) {
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), unit)
}

func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 128 << 10} {
		b.Run(fmt.Sprintf("KiB=%d", size>>10), func(b *testing.B) {
			l := open(b, natslog.Settings{Dir: b.TempDir()})
			fence := uint64(0)
			b.ResetTimer()
			for range b.N {
				next, err := l.Commit(b.Context(), 0, fence, make([]byte, size))
				if err != nil {
					b.Fatal(err)
				}
				fence = next
			}
			perSecond(b, "commits/s")
		})
	}
}

// BenchmarkRestore restores steps of 400 B. A server without sync stores them, because a
// hundred thousand durable commits take minutes.
func BenchmarkRestore(b *testing.B) {
	for _, steps := range []int{1_000, 100_000} {
		b.Run(fmt.Sprintf("steps=%d", steps), func(b *testing.B) {
			dir := b.TempDir()
			s, err := server.NewServer(&server.Options{JetStream: true, StoreDir: dir, Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true})
			if err != nil {
				b.Fatal(err)
			}
			s.Start()
			if !s.ReadyForConnections(time.Minute) {
				b.Fatal("the server does not start")
			}
			l := open(b, natslog.Settings{Options: natslog.Options{URLs: []string{s.ClientURL()}, Replicas: 1, AssumeDurable: true}})
			fence := uint64(0)
			for range steps {
				if fence, err = l.Commit(b.Context(), 0, fence, make([]byte, 400)); err != nil {
					b.Fatal(err)
				}
			}
			l.Close()
			s.Shutdown()
			s.WaitForShutdown()
			l = open(b, natslog.Settings{Dir: dir})
			b.ResetTimer()
			for range b.N {
				if h, err := l.Restore(b.Context(), 0); err != nil || len(h.Steps) != steps {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSnapshot saves and restores snapshots of 10 MB.
func BenchmarkSnapshot(b *testing.B) {
	l := open(b, natslog.Settings{Dir: b.TempDir()})
	fence, err := l.Commit(b.Context(), 0, 0, nil)
	if err != nil {
		b.Fatal(err)
	}
	saved, state := uint64(0), make([]byte, 10_000_000)
	b.Run("save", func(b *testing.B) {
		b.SetBytes(int64(len(state)))
		for range b.N {
			if fence, err = l.Commit(b.Context(), 0, fence, nil); err != nil {
				b.Fatal(err)
			}
			if err := l.SaveSnapshot(b.Context(), 0, saved, fence, state); err != nil {
				b.Fatal(err)
			}
			saved = fence
		}
	})
	b.Run("restore", func(b *testing.B) {
		b.SetBytes(int64(len(state)))
		for range b.N {
			if h, err := l.Restore(b.Context(), 0); err != nil || len(h.Snapshot) != len(state) {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkRead reads messages of one record each, and measures the time from the append
// of a record until a waiting reader gets it.
func BenchmarkRead(b *testing.B) {
	l := open(b, natslog.Settings{Dir: b.TempDir(), OpenOptions: journal.OpenOptions{Partitions: 2}})
	b.Run("latency", func(b *testing.B) {
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		r, err := l.Read(ctx, 0, 0)
		if err != nil {
			b.Fatal(err)
		}
		defer r.Close()
		if last, err := r.Last(ctx); err != nil {
			b.Fatal(err)
		} else if last > 0 {
			r.Close()
			if r, err = l.Read(ctx, 0, last); err != nil {
				b.Fatal(err)
			}
			defer r.Close()
		}
		b.ResetTimer()
		for range b.N {
			if _, err := l.Append(ctx, 0, []byte("x")); err != nil {
				b.Fatal(err)
			}
			if _, err := r.Next(ctx, 1<<20); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("rate", func(b *testing.B) {
		for range 2000 {
			if _, err := l.Append(b.Context(), 1, make([]byte, 256)); err != nil {
				b.Fatal(err)
			}
		}
		b.ResetTimer()
		total := 0
		for range b.N {
			r, err := l.Read(b.Context(), 1, 0)
			if err != nil {
				b.Fatal(err)
			}
			last, err := r.Last(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			for at := uint64(0); at < last; {
				messages, err := r.Next(b.Context(), 1<<20)
				if err != nil {
					b.Fatal(err)
				}
				at = messages[len(messages)-1].Position
				total += len(messages)
			}
			r.Close()
		}
		b.StopTimer()
		b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "messages/s")
	})
}
