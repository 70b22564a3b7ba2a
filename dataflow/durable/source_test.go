package durable

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/singleton"
)

// TestSourceExpires repeats numbered sends. A repeat has no effect while the sender is active at
// least once a week, also across restarts. Later it counts as new. A flow restored from its
// steps behaves like one restored from a snapshot.
func TestSourceExpires(t *testing.T) {
	for _, graceful := range []bool{true, false} {
		t.Run(fmt.Sprint("graceful=", graceful), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type ports struct {
					in  *dataflow.SharedInputPort[int]
					sum *dataflow.SingletonOutputPort[int]
				}
				build := func(f *dataflow.Flow) ports {
					in, xs := dataflow.SharedInput[int](dataflow.At[server](f), "in")
					return ports{in, singleton.Output(dataflow.Sum(xs), "sum")}
				}
				const day = 24 * time.Hour
				log := journal.NewMemory(journal.MemoryOptions{})
				opts := Options{SnapshotAge: 365 * day, MaxGap: 30 * day}
				app := start(t, log, build, opts)
				want := 0
				send := func(sender string, counts bool) {
					t.Helper()
					if err := app.Ports.in.SendNumbered(t.Context(), sender, 0, 1); err != nil {
						t.Fatal(err)
					}
					if counts {
						want++
					}
					if err := app.Ports.in.Send(t.Context(), 100); err != nil { // to have an effect to wait for
						t.Fatal(err)
					}
					want += 100
					reaches(t, app.Ports.sum, want)
				}
				restart := func() {
					if graceful {
						stop(t, app)
					} else {
						log.Crash()
						<-app.Done()
					}
					log = log.Reopen()
					app = start(t, log, build, opts)
					reaches(t, app.Ports.sum, want)
				}
				send("a", true)
				send("b", true)
				time.Sleep(6 * day)
				restart()
				send("a", false)
				time.Sleep(2 * day)
				restart()
				send("b", true) // b was silent for eight days
				send("a", false)
				time.Sleep(7*day + time.Second)
				send("a", true)
				restart()
				send("a", false)
				stop(t, app)
			})
		})
	}
}
