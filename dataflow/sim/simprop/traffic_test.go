package simprop_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/sim/simprop"
)

// every holds a port of each kind.
type every struct {
	one     *dataflow.InputPort[int]
	shared  *dataflow.SharedInputPort[int]
	keyed   *dataflow.KeyedInputPort[string, int]
	open    *dataflow.SharedKeyedInputPort[string, int]
	entries *dataflow.EntryInputPort[string, int]
	senders *dataflow.SenderInputPort[string, int]
}

var (
	keys   = gen.OneConstOf("a", "b", "c")
	values = gen.IntRange(0, 9)
)

func everyPort() []simprop.PortGen[every] {
	return []simprop.PortGen[every]{
		simprop.Values("one", func(p every) *dataflow.InputPort[int] { return p.one }, values),
		simprop.Values("shared", func(p every) *dataflow.SharedInputPort[int] { return p.shared }, values),
		simprop.KeyedValues("keyed", func(p every) *dataflow.KeyedInputPort[string, int] { return p.keyed }, keys, values).Weight(3),
		simprop.KeyedValues("open", func(p every) *dataflow.SharedKeyedInputPort[string, int] { return p.open }, keys, values),
		simprop.Entries("entries", func(p every) *dataflow.EntryInputPort[string, int] { return p.entries }, keys, values),
		simprop.Senders("senders", func(p every) *dataflow.SenderInputPort[string, int] { return p.senders }, keys, values),
		simprop.Op("wait", gen.Const("x"), func(*sim.Ctx, every, string) error { return nil }),
		simprop.Close("shared", func(p every) *dataflow.SharedInputPort[int] { return p.shared }),
	}
}

// cases draws cases, and returns each with its generator's metadata.
func cases(g gopter.Gen, n int, size int, seed int64) []*gopter.GenResult {
	params := gopter.DefaultGenParameters().WithSize(size).CloneWithSeed(seed)
	all := make([]*gopter.GenResult, n)
	for i := range all {
		all[i] = g(params)
	}
	return all
}

// users returns which clients use each port, or each key of a port, according to a case's text.
func users(c fmt.Stringer) map[string]map[int]bool {
	all := make(map[string]map[int]bool)
	for i, line := range strings.Split(c.String(), "\n") {
		_, line, _ = strings.Cut(line, ":")
		for _, op := range regexp.MustCompile(`(\w+) (\w+)(:\d)?`).FindAllStringSubmatch(line, -1) {
			what := op[1]
			if op[2] == "closed" {
				continue
			}
			if op[3] != "" {
				what += " " + op[2]
			}
			if all[what] == nil {
				all[what] = make(map[int]bool)
			}
			all[what][i] = true
		}
	}
	return all
}

// TestTraffic examines many cases. Each input with one sender is used by one client, every other
// input by several, and everything that can be generated occurs. It catches an input with one sender
// that is given to two clients, which is a data race in production and not a property of the flow.
func TestTraffic(t *testing.T) {
	const draws = 3000
	several := make(map[string]int)
	most, operations, closed := 0, 0, 0
	for _, r := range cases(simprop.Traffic(everyPort()...), draws, 100, 1) {
		c := r.Result.(simprop.Case[every])
		most, operations = max(most, c.Len()), operations+c.Len()
		if c.Len() == 0 {
			continue
		}
		if strings.Contains(c.String(), "shared closed") {
			closed++
		}
		for what, by := range users(c) {
			if len(by) > 1 {
				several[strings.Fields(what)[0]]++
			}
		}
	}
	if most != 9 || operations < 3*draws || closed < draws/3 {
		t.Errorf("%d operations in %d cases, at most %d and want 9; %d cases close a port", operations, draws, most, closed)
	}
	for _, what := range []string{"one", "keyed", "senders"} {
		if several[what] != 0 {
			t.Errorf("%s has several senders in %d cases", what, several[what])
		}
	}
	for _, what := range []string{"shared", "open", "entries", "wait"} {
		if several[what] < 10 {
			t.Errorf("%s has several senders in %d cases only", what, several[what])
		}
	}
	small := cases(simprop.Traffic(everyPort()...), 100, 0, 1)
	for _, r := range small {
		if n := r.Result.(simprop.Case[every]).Len(); n > 2 { // one of them closes
			t.Errorf("a case of size 0 has %d operations", n)
		}
	}
}

// TestSent checks that Sent returns what was sent, in the type of the port. It panics for another
// type, because a property that reads an empty list would always hold.
func TestSent(t *testing.T) {
	counts := make(map[string]int)
	for _, r := range cases(simprop.Traffic(everyPort()...), 200, 100, 2) {
		c := r.Result.(simprop.Case[every])
		counts["one"] += len(simprop.Sent[int](c, "one"))
		counts["keyed"] += len(simprop.Sent[dataflow.Entry[string, int]](c, "keyed"))
		counts["wait"] += len(simprop.Sent[string](c, "wait"))
		if n := strings.Count(c.String(), "one "); n != len(simprop.Sent[int](c, "one")) {
			t.Fatalf("%d values of one in\n%v", n, c)
		}
	}
	if counts["one"] < 50 || counts["keyed"] < 150 || counts["wait"] < 50 {
		t.Errorf("there was %v in 200 cases", counts)
	}
	panics(t, "simprop: Sent: one takes int, not string", func() {
		for _, r := range cases(simprop.Traffic(everyPort()...), 200, 100, 2) {
			simprop.Sent[string](r.Result.(simprop.Case[every]), "one")
		}
	})
}

// TestGeneratorsMisused checks that wrong generators panic when the property is built, and not in
// the middle of its cases.
func TestGeneratorsMisused(t *testing.T) {
	one := func(p every) *dataflow.InputPort[int] { return p.one }
	panics(t, "simprop: Values: the generator of one gives string, and the port takes int", func() { simprop.Values("one", one, keys) })
	panics(t, "simprop: Entries: the generator of e gives int, and the port takes string", func() {
		simprop.Entries("e", func(p every) *dataflow.EntryInputPort[string, int] { return p.entries }, values, values)
	})
	panics(t, "simprop: PortGen: one has the weight 0", func() { simprop.Values("one", one, values).Weight(0) })
	panics(t, "simprop: Traffic: nothing is generated", func() { simprop.Traffic(simprop.Close("one", one)) })
	panics(t, "simprop: Traffic: a PortGen comes from", func() { simprop.Traffic(simprop.PortGen[every]{}) })
	panics(t, "simprop: Limits: -1 clients", func() {
		simprop.TrafficWithin(simprop.Limits{Clients: -1}, simprop.Values("one", one, values))
	})
}

func panics(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := fmt.Sprint(recover()); !strings.HasPrefix(got, want) {
			t.Errorf("it panics with %q, want %q", got, want)
		}
	}()
	f()
}

// minimal shrinks a case as gopter does while it fails. It returns the last failing case and the
// number of candidates tried.
func minimal(r *gopter.GenResult, fails func(simprop.Case[every]) bool) (c simprop.Case[every], tried int) {
	c = r.Result.(simprop.Case[every])
	for next := r.Shrinker(c); ; {
		v, ok := next()
		if !ok {
			return c, tried
		}
		tried++
		if d := v.(simprop.Case[every]); fails(d) {
			c, next = d, r.Shrinker(d)
		}
	}
}

// TestShrink shrinks cases to the smallest ones with some content, and to the fewest clients that
// can produce it. Each property needs another way to shrink, so the test catches an omitted one.
func TestShrink(t *testing.T) {
	has := func(words ...string) func(simprop.Case[every]) bool {
		return func(c simprop.Case[every]) bool {
			for _, word := range words {
				if !regexp.MustCompile(word).MatchString(c.String()) {
					return false
				}
			}
			return true
		}
	}
	sum := func(c simprop.Case[every]) (n int) {
		for _, x := range simprop.Sent[int](c, "shared") {
			n += x
		}
		return n
	}
	tests := []struct {
		name  string
		fails func(simprop.Case[every]) bool
		want  string
	}{
		{"operations", has("keyed b:"), `^client 1: keyed b:0$`},
		{"clients merge", has("wait", "entries"), `^client 1: (entries .:0, wait x|wait x, entries .:0)$`},
		{"values", func(c simprop.Case[every]) bool { return sum(c) > 12 }, `^client 1: shared \d(, shared \d)+$`},
		{"two clients", func(c simprop.Case[every]) bool { return len(users(c)["shared"]) > 1 }, `^client 1: shared 0\nclient 2: shared 0$`},
		{"two of one client", has(`wait x(, [^\n]*)?, wait x`, "entries"), `^client 1: [^\n]*$`},
		{"keys of two clients", has(`(?m)keyed [^\n]*\n(.*\n)?client .*keyed`), `^client 1: keyed .:0\nclient 2: keyed .:0$`},
		{"keys", func(c simprop.Case[every]) bool { return len(simprop.Sent[dataflow.Entry[string, int]](c, "open")) > 2 }, `^client 1: open (.):0, open (.):0, open (.):0$`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			shrunk, all := 0, 0
			for _, r := range cases(simprop.Traffic(everyPort()...), 2000, 100, 3) {
				if !test.fails(r.Result.(simprop.Case[every])) {
					continue
				}
				c, tried := minimal(r, test.fails)
				shrunk, all = shrunk+1, all+tried
				found := regexp.MustCompile(test.want).FindStringSubmatch(c.String())
				if found == nil || len(found) == 4 && (found[1] != found[2] || found[2] != found[3]) {
					t.Fatalf("shrunk to\n%v\nfrom\n%v", c, r.Result)
				}
				if test.name == "values" && sum(c) != 13 {
					t.Fatalf("the sum is %d in\n%v", sum(c), c)
				}
				for what, by := range users(c) {
					if len(by) > 1 && strings.HasPrefix(what, "keyed") {
						t.Fatalf("a key has two senders in\n%v", c)
					}
				}
			}
			if shrunk < 20 || all/shrunk > 500 {
				t.Errorf("%d cases were shrunk, in %d attempts", shrunk, all)
			}
		})
	}
}
