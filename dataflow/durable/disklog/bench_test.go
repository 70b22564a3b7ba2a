package disklog_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

// compared are the logs that a benchmark runs on.
var compared = []struct {
	name string
	in   func(dir string) journal.Opener
}{
	{"disklog", disklog.Dir},
	{"natslog", natslog.Embedded},
}

func onEach(b *testing.B, partitions int, do func(b *testing.B, l journal.Log)) {
	for _, c := range compared {
		b.Run(c.name, func(b *testing.B) {
			l, err := c.in(b.TempDir()).Open(b.Context(), journal.OpenOptions{Partitions: partitions, Logger: quiet})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			do(b, l)
		})
	}
}

func perSecond(b *testing.B, unit string) {
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), unit)
}

// BenchmarkEvents has senders that wait until a step has taken what they sent, as those of a flow
// do. A record of 100 B is made durable, an owner reads it with the records that arrived meanwhile,
// and commits a step.
func BenchmarkEvents(b *testing.B) {
	for _, load := range []struct{ senders, partitions int }{{64, 1}, {64, 16}, {1024, 16}} {
		b.Run(fmt.Sprintf("senders=%d/partitions=%d", load.senders, load.partitions), func(b *testing.B) {
			onEach(b, load.partitions, func(b *testing.B, l journal.Log) { events(b, l, load.senders) })
		})
	}
}

func events(b *testing.B, l journal.Log, senders int) {
	taken := make([]chan struct{}, senders)
	for i := range taken {
		taken[i] = make(chan struct{}, 1)
	}
	var owners, clients sync.WaitGroup
	readers := make([]journal.Reader, l.Partitions())
	for p := range readers {
		r, err := l.Read(b.Context(), p, 0)
		if err != nil {
			b.Fatal(err)
		}
		readers[p] = r
		owners.Go(func() {
			for fence := uint64(0); ; {
				messages, err := r.Next(b.Context(), 1<<20)
				if err != nil {
					return // closed
				}
				var step []byte
				for _, m := range messages {
					for _, record := range m.Records {
						step = append(step, record[:8]...)
					}
				}
				if fence, err = l.Commit(b.Context(), p, fence, step); err != nil {
					b.Error(err)
					return
				}
				for ; len(step) > 0; step = step[8:] {
					taken[binary.BigEndian.Uint64(step)] <- struct{}{}
				}
			}
		})
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	for s := range senders {
		clients.Go(func() {
			record := binary.BigEndian.AppendUint64(make([]byte, 0, 100), uint64(s))[:100]
			for left.Add(-1) >= 0 {
				if _, err := l.Append(b.Context(), s%l.Partitions(), record); err != nil {
					b.Error(err)
					return
				}
				<-taken[s]
			}
		})
	}
	clients.Wait()
	perSecond(b, "events/s")
	for _, r := range readers {
		r.Close()
	}
	owners.Wait()
}

// BenchmarkAppend measures one writer.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{256, 16 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			onEach(b, 1, func(b *testing.B, l journal.Log) {
				record := make([]byte, size)
				b.ResetTimer()
				for range b.N {
					if _, err := l.Append(b.Context(), 0, record); err != nil {
						b.Fatal(err)
					}
				}
				perSecond(b, "appends/s")
			})
		})
	}
}

// BenchmarkSnapshot saves and restores a snapshot of 10 MB.
func BenchmarkSnapshot(b *testing.B) {
	onEach(b, 1, func(b *testing.B, l journal.Log) {
		fence, err := l.Commit(b.Context(), 0, 0, nil)
		if err != nil {
			b.Fatal(err)
		}
		saved, state := uint64(0), []byte(strings.Repeat("0123456789", 1_000_000))
		b.SetBytes(int64(2 * len(state)))
		b.ResetTimer()
		for range b.N {
			if fence, err = l.Commit(b.Context(), 0, fence, nil); err != nil {
				b.Fatal(err)
			}
			if err := l.SaveSnapshot(b.Context(), 0, saved, fence, state); err != nil {
				b.Fatal(err)
			}
			saved = fence
			if h, err := l.Restore(b.Context(), 0); err != nil || len(h.Snapshot) != len(state) {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkOpen opens a log of 10,000 steps and reports the memory of the process with the open
// log.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	l := open(b, dir, journal.OpenOptions{Partitions: 16})
	fences := make([]uint64, 16)
	var err error
	for i := range 10_000 {
		if fences[i%16], err = l.Commit(b.Context(), i%16, fences[i%16], make([]byte, 400)); err != nil {
			b.Fatal(err)
		}
	}
	l.Close()
	b.ResetTimer()
	for i := range b.N {
		l := open(b, dir, journal.OpenOptions{})
		if i == b.N-1 {
			b.StopTimer()
			runtime.GC()
			if status, err := os.ReadFile("/proc/self/status"); err == nil {
				_, rest, _ := strings.Cut(string(status), "VmRSS:")
				var kib float64
				fmt.Sscan(rest, &kib)
				b.ReportMetric(kib/1024, "RSS-MiB")
			}
		}
		l.Close()
	}
}
