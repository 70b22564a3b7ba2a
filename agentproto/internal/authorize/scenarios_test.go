package authorize

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/internal/long"
)

// A scenario is a sequence of events for one call, or for two.
type scenario struct {
	calls   string // "one", "two" of one user, or two of two "runtimes"
	event   string
	token   string // in the vault: "none", "renewable", "unrenewable"
	confirm bool
}

func (x scenario) String() string {
	return fmt.Sprintf("%s, %s, %s, %t", x.calls, x.event, x.token, x.confirm)
}

func (x scenario) callers(w *world) []*caller {
	all := []*caller{{w: w, runtime: "r", user: "user:u", key: "one"}}
	switch x.calls {
	case "two":
		all = append(all, &caller{w: w, runtime: "r", user: "user:u", key: "two"})
	case "runtimes":
		all = append(all, &caller{w: w, runtime: "other", user: "user:u", key: "two"})
	}
	for _, c := range all {
		c.scopes = []string{"read"}
		t := &token{name: "old", scopes: c.scopes, expired: true}
		switch {
		case x.event == "renewal fails":
			t.refresh = "fails"
		case x.event == "revoked":
			t.expired, t.refresh, c.refused = false, "refused", "old"
		case x.token == "renewable":
			t.refresh = "works"
		case x.token == "none":
			continue
		}
		w.vault[name(c.runtime, c.k())] = t
	}
	return all
}

func (x scenario) once(s *sim.Sim) {
	w := newWorld(s, x.confirm)
	if x.event == "exchange fails" {
		w.fails = Failed
	}
	if x.calls == "runtimes" {
		s.CallsShareNothing() // except the numbers of tokens
	}
	all := x.callers(w)
	for _, c := range all {
		c.send()
	}
	asked := 0
	for _, c := range all {
		class := c.hear()
		switch {
		case x.event == "renewal fails":
			w.one("an ask", class, Unrenewed)
		case x.token == "renewable" && x.event != "revoked":
			w.one("an ask", class, Good)
		default:
			w.one("an ask", class, Asked)
		}
		if class == Asked {
			asked++
		}
	}
	if asked > 0 {
		x.act(w, all)
	}
	for _, c := range all {
		c.end()
	}
	w.check()
	if n := w.renewals; (x.token == "renewable" || x.event == "revoked") && x.calls != "runtimes" && n != 1 {
		w.s.Errorf("%d renewals", n)
	}
}

// act performs the users' actions. Time may pass before each.
func (x scenario) act(w *world, all []*caller) {
	first, last := all[0], all[len(all)-1]
	ends := slices.Clone(all) // those that wait for an outcome
	void := false             // nobody gets a token
	switch x.event {
	case "allowed", "revoked":
		first.redirect("page", "code")
	case "exchange fails":
		first.redirect("page", "code")
		void = true
	case "denied":
		first.redirect("page", "")
		void = true
	case "late":
		void = true
	case "other call":
		last.redirect("page", "code")
	case "twice":
		first.redirect("page", "code")
		first.redirect("again", "code 2")
		a, b := first.page("page", "code"), first.page("again", "code 2")
		if (a == Over) == (b == Over) && (a != Over || first.outcome() != Late) {
			w.s.Errorf("two redirects: %s and %s", a, b)
		}
	case "wrong number":
		first.redirect("page", "code")
		void = true
	case "cancelled":
		first.redirect("page", "code")
		first.end()
		first.page("page", "code")
		ends = ends[1:]
	case "closed":
		first.redirect("page", "code")
		first.end()
		first.close()
		first.page("page", "code")
		ends = ends[1:]
	}
	for _, c := range ends {
		x.wait(w, c, first, void)
	}
	if x.event == "closed" {
		for _, c := range ends {
			c.end()
		}
		w.s.Quiesce()
		if x.calls != "two" && w.vault[name(first.runtime, first.k())] != nil {
			w.s.Errorf("a token is left of a session that was closed")
		}
	}
}

// wait waits for the outcome of a call and confirms it.
func (x scenario) wait(w *world, c, first *caller, void bool) {
	class := c.outcome()
	if class == Unconfirmed {
		number := Good
		if x.event == "wrong number" {
			number = Wrong
		}
		w.one("confirmed with "+string(number), c.pick(number), number, Late)
		if number == Wrong && x.calls == "one" && x.token == "none" {
			c.send()
			w.one("an ask after a wrong number", c.hear(), Paused, Asked)
		}
		return
	}
	other := c.runtime != first.runtime
	switch {
	case x.event == "denied" && c == first:
		w.one("denied", class, Denied, Late)
	case x.event == "exchange fails" && c == first:
		w.one("exchange fails", class, Failed, Late)
	case x.event == "wrong number" && c != first && !other:
		w.one("beside a wrong number", class, Paused, Late)
	case x.event == "closed" && !other:
		w.one("beside a thread that was closed", class, Good, Late, Over) // the first may have been faster
	case void || x.event == "closed":
		w.one("nobody has come", class, Late, Over)
	default:
		w.one("in the end", class, Good, Late)
	}
}

// scenarios returns all scenarios. It omits a variation that multiplies the orders and shows nothing new.
func scenarios() (all []scenario) {
	for _, calls := range []string{"one", "two", "runtimes"} {
		for _, confirm := range []bool{false, true} {
			for _, event := range []string{"allowed", "denied", "late", "exchange fails", "wrong number", "cancelled", "closed", "twice", "other call", "renewal fails", "revoked"} {
				for _, token := range []string{"none", "unrenewable", "renewable"} {
					switch {
					case event == "wrong number" && !confirm, event == "other call" && calls == "one":
					case (event == "renewal fails" || event == "revoked") && token != "none": // these events bring a token
					case event == "wrong number" && token != "none":
					case token == "renewable" && event != "allowed": // nobody is asked
					case calls == "two" && token != "none" && (event == "closed" || confirm && event == "twice"):
					case calls == "runtimes" && (event == "closed" || event == "cancelled" || event == "wrong number"):
					case calls == "runtimes" && confirm && (token != "none" || event == "twice" || event == "other call" || event == "revoked" || event == "exchange fails"):
					default:
						all = append(all, scenario{calls, event, token, confirm})
					}
				}
			}
		}
	}
	return all
}

var update = flag.Bool("update", false, "write the numbers of schedules")

// TestEveryScenario tries all schedules of each scenario. Their numbers are in a file. A different number means
// that the test now shows less, or that the flow does something new.
func TestEveryScenario(t *testing.T) {
	const file = "testdata/schedules.txt"
	var got strings.Builder
	want, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	for i, x := range scenarios() {
		if !long.Searches() && !*update && i%8 > 0 {
			got.WriteString(line(string(want), i))
			continue
		}
		n := sim.Exhaustive(t, x.once)
		if t.Failed() {
			t.Fatal(x)
		}
		t.Log(x, n)
		fmt.Fprintf(&got, "%v: %d\n", x, n)
	}
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if *update {
		return
	}
	if string(want) != got.String() {
		t.Errorf("the numbers of schedules are\n%s\nand not those of %s (-update writes them)", &got, file)
	}
}

// line returns line i of text.
func line(text string, i int) string {
	for l := range strings.Lines(text) {
		if i--; i < 0 {
			return l
		}
	}
	return ""
}
