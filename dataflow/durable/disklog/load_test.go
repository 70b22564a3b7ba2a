package disklog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A load appends and commits on all partitions of a log.
type load struct {
	mu       sync.Mutex
	acked    []string // records
	full     []string // records that were refused
	unknown  []string
	fence    [2]uint64
	steps    [2]int
	unsure   [2]bool // whether there may be one more step
	position [2]uint64
}

// run appends and commits until each goroutine is refused, and returns errors other than
// ErrFull.
func (k *load) run(ctx context.Context, l *disklog.Log, name string) error {
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for g := range errs {
		wg.Go(func() {
			p := g % 2
			for n := 0; ; n++ {
				record := fmt.Sprint(name, ".", g, ".", n, " ", strings.Repeat("x", 5000))
				position, err := l.Append(ctx, p, []byte(record))
				k.mu.Lock()
				switch {
				case err == nil:
					k.acked = append(k.acked, record)
					k.position[p] = max(k.position[p], position)
				case errors.Is(err, journal.ErrFull):
					k.full = append(k.full, record)
				default:
					k.unknown = append(k.unknown, record)
					errs[g] = err
				}
				k.mu.Unlock()
				if err != nil {
					return
				}
				if g < 2 {
					fence, err := l.Commit(ctx, p, k.fence[p], []byte(record))
					if err == nil {
						k.fence[p] = fence
						k.steps[p]++
						continue
					}
					if !errors.Is(err, journal.ErrFull) {
						errs[g], k.unsure[p] = err, true
					}
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// check checks that the log contains what was acknowledged, and nothing that was refused.
// A step with an unknown outcome may exist.
func (k *load) check(t *testing.T, l *disklog.Log) {
	t.Helper()
	ctx := soon(t)
	have := make(map[string]int)
	for p := range 2 {
		h, err := l.Restore(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		if len(h.Steps) != k.steps[p] && (!k.unsure[p] || len(h.Steps) != k.steps[p]+1) {
			t.Errorf("partition %d has %d steps, and %d were acknowledged", p, len(h.Steps), k.steps[p])
		}
		k.fence[p], k.steps[p], k.unsure[p] = h.Fence, len(h.Steps), false
		r, err := l.Read(ctx, p, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for at := uint64(0); at < h.End; {
			messages, err := r.Next(ctx, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range messages {
				at = m.Position
				for _, record := range m.Records {
					have[string(record)]++
				}
			}
		}
	}
	for _, record := range k.acked {
		if have[record] != 1 {
			t.Errorf("%.20q is there %d times", record, have[record])
		}
		delete(have, record)
	}
	for _, record := range k.full {
		if have[record] != 0 {
			t.Errorf("%.20q was refused and is there", record)
		}
	}
	for record := range have {
		if !slices.Contains(k.unknown, record) {
			t.Errorf("%.20q is there and was never sent", record)
		}
	}
}
