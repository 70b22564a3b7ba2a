package identity

import (
	"strings"
	"testing"
)

// TestTypesOfOneName compares the structs that an operator takes before and now. Two of them may have
// the same name. One that is the same on both sides does not affect the other, whatever the order.
func TestTypesOfOneName(t *testing.T) {
	const (
		a = "main.payment {Amount int}"
		b = "main.payment {Tax string}"
		c = "main.payment {Amount int; Tip int}" // a with another field
		d = "main.payment {Amount string}"       // a with a field of another type
		e = "main.payment {Tax string; Tip int}" // b with another field
		f = "main.payment {Tax int}"             // b with a field of another type
		g = "main.payment {Sum int}"             // a with a field of another name
	)
	for _, x := range []struct {
		before, now       []string
		unfit, other, bad bool // a sender of before is refused, values are converted, a program now needs a line
	}{
		{[]string{a, b}, []string{a, b}, false, false, false},
		{[]string{a, b}, []string{b, a}, false, false, false},
		{[]string{a}, []string{a, b}, false, false, false},
		{[]string{a}, []string{b, a}, false, false, false},
		{[]string{b, a}, []string{a}, false, false, false},
		{[]string{a, b}, []string{c, b}, false, false, false},
		{[]string{b, a}, []string{c, b}, false, false, false},
		{[]string{a, b}, []string{d, b}, true, true, true},
		{[]string{b, a}, []string{d, b}, true, true, true},
		{[]string{a}, []string{b}, true, false, true},
		{[]string{a, b}, []string{c, e}, false, false, false},
		{[]string{a, b}, []string{e, c}, false, false, false},
		{[]string{a, b}, []string{d, e}, true, true, true},
		{[]string{a, b}, []string{e, d}, true, true, true},
		{[]string{a, b}, []string{c, f}, true, true, true},
		{[]string{a, b}, []string{f, c}, true, true, true},
		{[]string{a, b}, []string{g, e}, true, false, true},
		{[]string{a, b}, []string{e, g}, true, false, true},
	} {
		shape := func(types []string) *Shape {
			all, err := Parse("location here\n\tinput\n\t\tnumber 1\n\t\ttakes main.payment\n\t\ttype " + strings.Join(types, "\n\t\ttype ") + "\n")
			if err != nil || len(all) != 1 || len(all[0].Operators) != 1 {
				t.Fatal(all, err)
			}
			return all[0]
		}
		was, is := shape(x.before), shape(x.now)
		if why := is.Operators[0].Misfit(&was.Operators[0]); (why != "") != x.unfit {
			t.Errorf("%v, sent to %v: %q", x.before, x.now, why)
		}
		if got := is.Operators[0].Converted(&was.Operators[0]); got != x.other {
			t.Errorf("%v, now %v: converted is %v", x.before, x.now, got)
		}
		bad := false
		for _, change := range NextOf(was, is) {
			bad = bad || change.Requirement != Allowed
		}
		if bad != x.bad {
			t.Errorf("%v, now %v: %v", x.before, x.now, NextOf(was, is))
		}
	}
}
