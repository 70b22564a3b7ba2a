package durable

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type batchPorts struct {
	plain   *dataflow.InputPort[string]
	keyed   *dataflow.KeyedInputPort[string, string]
	entries *dataflow.EntryInputPort[string, string]
	words   *dataflow.OutputPort[string]
	values  *dataflow.OutputPort[dataflow.Entry[string, string]]
	out     *dataflow.EntryOutputPort[string, string]
}

func batchesAt[L dataflow.Location](at L) (p batchPorts) {
	plain, s := dataflow.Input[string](at, "plain")
	keyed, ks := keyedstream.Input[string, string](at, "keyed")
	entries, es := keyedsingleton.Input[string, string](at, "entries")
	return batchPorts{plain, keyed, entries, dataflow.Output(s, "words"), keyedstream.Output(ks, "values"), keyedsingleton.Output(es, "out")}
}

func batchCluster(f *dataflow.Flow) batchPorts { return batchesAt(dataflow.At[members](f)) }

// manyKeys returns n keys and a value for each: key i%each has its values in order.
func manyKeys(n, each int) (ks, vs []string) {
	for i := range n {
		ks, vs = append(ks, fmt.Sprint("key ", i%each)), append(vs, fmt.Sprintf("value %05d", i))
	}
	return ks, vs
}

// TestBatchAppends sends 1,000 records to each input of a cluster: a partition has them in an
// append, and takes them in a step.
func TestBatchAppends(t *testing.T) {
	const n, partitions = 1000, 16
	sends := map[string]func(context.Context, batchPorts) error{
		"InputPort": func(ctx context.Context, p batchPorts) error {
			_, vs := manyKeys(n, n)
			got, err := p.plain.SendBatch(ctx, vs)
			return wantAll(got, n, err)
		},
	}
	for name, send := range sends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := journal.NewMemory(journal.MemoryOptions{Partitions: partitions})
				app := start(t, log, batchCluster, Options{Partitions: partitions})
				synctest.Wait()
				var appends, commits atomic.Int64
				log.SetHook(func(a journal.Action) journal.Fault {
					if a.Done && a.Op == journal.OpAppend {
						appends.Add(1)
					} else if a.Done && a.Op == journal.OpCommit {
						commits.Add(1)
					}
					return journal.Fault{}
				})
				if err := send(t.Context(), app.Ports); err != nil {
					t.Error(err)
				}
				synctest.Wait()
				if got := app.Metrics().Records; got != n {
					t.Errorf("%d records were taken", got)
				}
				if a, c := appends.Load(), commits.Load(); a != partitions || c != partitions {
					t.Errorf("%d appends and %d steps, want %d of each", a, c, partitions)
				}
				stop(t, app)
			})
		})
	}
}

func wantAll(got, n int, err error) error {
	if got != n || err != nil {
		return fmt.Errorf("%d of %d: %w", got, n, err)
	}
	return nil
}
