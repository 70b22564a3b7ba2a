package window_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
)

// TestSendIdle sends an idle source to another location, where it is merged with an active one.
// Before its first event arrives, its progress is unknown there: its events are counted, however
// early. After its first event it delays nothing while it is silent.
func TestSendIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		here, there := dataflow.At[server](flow), dataflow.At[away](flow)
		a, as := dataflow.Input[tick](here, "a")
		b, bs := dataflow.Input[tick](there, "b")
		first, _ := window.Stamp(as, at, slack(0))
		still, late := window.Idle(first, patience, "tested")
		dataflow.Output(late, "late")
		second, _ := window.Stamp(bs, at, slack(0))
		events := dataflow.AssumeOrder(dataflow.Merge(dataflow.Send(still, there), second), "counted")
		closed := countedAway(dataflow.KeyBy(events, key))
		out := dataflow.Output(dataflow.AssumeOrder(dataflow.Map(keyedsingleton.Entries(closed), func(e dataflow.Entry[window.Key[string], int]) string {
			return fmt.Sprintf("%s=%d", spanned(e.Key), e.Value)
		}), "tested"), "closed")
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		wait := func() { time.Sleep(10 * patience); synctest.Wait() }
		send(t, b, tick{"b", 1, 1}, tick{"b", 100, 2})
		wait()
		send(t, a, tick{"a", 3, 3})
		wait()
		send(t, b, tick{"b", 200, 4})
		wait()
		a.Close()
		b.Close()
		var all []string
		for line, err := out.Next(t.Context()); err == nil; line, err = out.Next(t.Context()) {
			all = append(all, line)
		}
		if err := app.Wait(); err != nil {
			t.Fatal(err)
		}
		slices.Sort(all)
		if got, want := strings.Join(all, " "), "a[0,10)=1 b[0,10)=1 b[100,110)=1 b[200,210)=1"; got != want {
			t.Errorf("closed are %s, want %s", got, want)
		}
	})
}
