package window_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/durabletest"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// A seat is placed by its room.
type seat struct {
	Room string
	N    int
}

func (s seat) Affinity() string { return s.Room }

// TestKeyIsPlacedByItsKey reads the windows of keys in four partitions by key and span, where they were closed and after a move to
// another location.
func TestKeyIsPlacedByItsKey(t *testing.T) {
	t.Run("by the encoding", func(t *testing.T) { readPlaced(t, "a", "b", "c", "d") }) // one in each partition
	t.Run("by the affinity", func(t *testing.T) { readPlaced(t, seat{"a", 1}, seat{"b", 1}, seat{"b", 2}) })
}

func readPlaced[K comparable](t *testing.T, keys ...K) {
	type others struct{ dataflow.Cluster }
	type ports struct {
		in            *dataflow.KeyedInputPort[K, tick]
		closed, moved *dataflow.EntryOutputPort[window.Key[K], int]
	}
	durabletest.Crash(t, durabletest.Program[ports]{
		Build: func(flow *dataflow.Flow) ports {
			in, xs := keyedstream.Input[K, tick](dataflow.At[cluster](flow), "ticks")
			es, _ := window.StampKeyed(xs, at, slack(0), "the test sends in the order of times")
			closed, _ := window.Count(es, window.Every(10*time.Second))
			moved := keyedsingleton.Send(closed, dataflow.At[others](flow))
			return ports{in, keyedsingleton.Output(closed, "closed"), keyedsingleton.Output(moved, "moved")}
		},
		Drive: func(ctx context.Context, p ports) error {
			for i, at := range []int{1, 11} {
				for _, k := range keys {
					if err := p.in.SendNumbered(ctx, k, uint64(i), tick{"", at, i}); err != nil {
						return err
					}
				}
			}
			return nil
		},
		Check: func(ctx context.Context, p ports) error {
			for _, k := range keys {
				soon, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				key := window.Key[K]{Key: k, Span: window.Span{To: seconds(10)}}
				for name, out := range map[string]*dataflow.EntryOutputPort[window.Key[K], int]{"closed": p.closed, "moved": p.moved} {
					if n, err := out.Await(soon, key); err != nil || n != 1 {
						return fmt.Errorf("%s: %v has %d, want 1: %w", name, key, n, err)
					}
				}
			}
			return nil
		},
	}, durabletest.Options{Durable: durable.Options{Partitions: 4}})
}
