package window_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
)

// heldBy returns the mark of the operator with the given name and the stamps that hold it. A stamp
// is a letter, "a" for the first one constructed.
func heldBy(t *testing.T, s dataflow.LocationStatus, name string) (window.Time, string) {
	t.Helper()
	var stamps []string
	for _, o := range s.Operators {
		if o.Name == "window.Stamp" {
			stamps = append(stamps, "window.Stamp ("+o.Pos+")")
		}
	}
	for _, o := range s.Operators {
		if o.Name != name {
			continue
		}
		var by []string
		for _, x := range o.HeldBy {
			if i := slices.Index(stamps, x); i >= 0 {
				x = string(rune('a' + i))
			}
			by = append(by, x)
		}
		return window.Time(o.Mark), strings.Join(by, " ")
	}
	t.Fatalf("there is no %s", name)
	return 0, ""
}

// TestHeldBy is the other half of case 45: the status of a flow names the source that holds back a
// mark, also through an operator in between.
func TestHeldBy(t *testing.T) {
	for name, through := range map[string]func(eventStream) eventStream{
		"merged": nil,
		"sorted": func(es eventStream) eventStream { return window.Sort(es) },
	} {
		for _, idle := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				x := newIdling(dataflow.New(), idle, through)
				x.start(t)
				held := func(mark window.Time, want string) {
					t.Helper()
					synctest.Wait()
					if now, by := heldBy(t, x.app.Status()[0], "window.Count"); now != mark || by != want {
						t.Errorf("%s, idle %v: the mark is %d, held by %q, want %d by %q", name, idle, now, by, mark, want)
					}
				}
				held(window.Past, "a b")
				send(t, x.a, of("a", 12)...)
				held(window.Past, "b")
				if time.Sleep(2 * patience); idle {
					held(seconds(12), "a")
				} else {
					held(window.Past, "b")
				}
				send(t, x.b, of("b", 16)...)
				held(seconds(12), "a")
				send(t, x.a, of("a", 14)...)
				held(seconds(14), "a b")
				x.b.Close()
				held(seconds(14), "a")
				x.a.Close()
				held(window.Future, "")
				x.end(t)
			})
		}
	}
}

// TestHeldByJoin is TestHeldBy for an operator with two inputs, one of which comes from another
// location. For that input the status names the operator that receives it.
func TestHeldByJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		here, there := dataflow.At[server](flow), dataflow.At[elsewhere](flow)
		a, as := dataflow.Input[tick](here, "a")
		b, bs := dataflow.Input[tick](there, "b")
		left, _ := window.Stamp(as, at, slack(0))
		right, _ := window.Stamp(bs, at, slack(0))
		pairs := window.Join(dataflow.KeyBy(left, key), dataflow.KeyBy(dataflow.Send(right, here), key), window.Within{})
		closed, _ := window.Count(pairs, window.Every(time.Second))
		keyedsingleton.Inspect(closed, func(int) {})
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		held := func(mark window.Time, want string) {
			t.Helper()
			synctest.Wait()
			for _, name := range []string{"window.Join", "window.Count"} {
				if now, by := heldBy(t, app.Status()[0], name); now != mark || !strings.HasPrefix(by, want) || want == "" && by != "" {
					t.Errorf("the mark of %s is %d, held by %q, want %d by %q", name, now, by, mark, want)
				}
			}
		}
		held(window.Past, "a dataflow.Send (held_test.go:")
		send(t, a, of("a", 3)...)
		held(window.Past, "dataflow.Send (held_test.go:")
		send(t, b, of("b", 5)...)
		held(seconds(3), "a")
		a.Close()
		held(seconds(5), "dataflow.Send (held_test.go:")
		b.Close()
		held(window.Future, "")
	})
}
