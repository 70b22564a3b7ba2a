package connect_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
)

// A stubborn queue delivers a job again until it is acknowledged, and then the next one.
type stubborn struct{ jobs []string }

func (q *stubborn) Receive(ctx context.Context, b *connect.Batch[string, string]) (ack func(context.Context) error, err error) {
	if len(q.jobs) == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	b.Keys, b.Values = append(b.Keys, q.jobs[0]), append(b.Values, "do "+q.jobs[0])
	return func(context.Context) error { q.jobs = q.jobs[1:]; return nil }, nil
}

func (q *stubborn) Close() error { return nil }

// TestEntryInQuarantine checks that a record on which a function of the program panics is quarantined once, and that the source
// continues after it.
func TestEntryInQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type ports struct {
			in   *connect.Port[string, string, dataflow.NoOrder, dataflow.AtLeastOnce]
			done *dataflow.EntryOutputPort[string, string]
		}
		app, err := durable.Start(t.Context(), func(f *dataflow.Flow) ports {
			entries, jobs := keyedsingleton.Input[string, string](dataflow.At[store](f), "jobs")
			done := keyedsingleton.Map(jobs, func(job string) string {
				if job == "do bad" {
					panic("no")
				}
				return job
			})
			return ports{connect.EntryPort(entries, "jobs"), keyedsingleton.Output(done, "done")}
		}, durable.Options{Log: journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{})}})
		if err != nil {
			t.Fatal(err)
		}
		pumps := attach(t, app, connect.Delivered(&stubborn{jobs: []string{"one", "bad", "two"}}), app.Ports.in, connect.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if x, err := app.Ports.done.Await(ctx, "two"); x != "do two" || err != nil {
			t.Errorf("the job behind it is %q (%v)", x, err)
		}
		time.Sleep(time.Hour)
		if all, err := app.Quarantine(t.Context()); len(all) != 1 || err != nil {
			t.Errorf("in quarantine there is %+v (%v)", all, err)
		}
		if s := pumps.Status(); len(s) != 1 || s[0].Ended || s[0].Err != nil {
			t.Errorf("the status is %+v", s)
		}
		stop(t, pumps)
		stop(t, app)
	})
}
