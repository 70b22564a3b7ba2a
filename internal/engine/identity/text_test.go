package identity

import (
	"reflect"
	"testing"
)

type pair[A, B any] struct {
	First  A
	Second B
}

// TestFieldsOf parses descriptions of structs, some of which have structs without a name in them.
func TestFieldsOf(t *testing.T) {
	type inner = struct {
		A int `note:"a; }{\\\""`
		B struct{ C, D string }
		E struct{}
	}
	for _, c := range []struct {
		of   any
		want map[string]string
	}{
		{pair[int, []string]{}, map[string]string{"First": "int", "Second": "[]string"}},
		{pair[string, inner]{}, map[string]string{"First": "string", "Second": "struct", "Second.A": `int "note:\"a; }{\\\\\\\"\""`,
			"Second.B": "struct", "Second.B.C": "string", "Second.B.D": "string", "Second.E": "struct"}},
		{pair[map[struct{ A int }][]*struct{ A, B int }, int]{}, map[string]string{"First": "map[struct][]*struct", "First.A": "int", "First.2.A": "int", "First.2.B": "int", "Second": "int"}},
	} {
		typ := reflect.TypeOf(c.of)
		texts := make(map[reflect.Type]string)
		structs([]reflect.Type{typ}, texts)
		name, fields := fieldsOf(texts[typ])
		if name != typ.String() || !reflect.DeepEqual(fields, c.want) {
			t.Errorf("%s is parsed as %s with %q, want %q", texts[typ], name, fields, c.want)
		}
	}
	for _, damaged := range []string{"", "{", "}", "a {b struct {", `a {b struct { c "`, `a {b struct { c "\`, "a {; ; b}", "struct {struct {struct {"} {
		fieldsOf(damaged) // must not panic
	}
}

// FuzzParse checks that a parsed text, written and parsed again, is the same, and that the parser
// fails on no text except with an error.
func FuzzParse(f *testing.F) {
	f.Add("location \n\t000000000000000000000\n\t\ttype  {0\n\t\ttype")
	f.Add("location server\n\tinput votes\n\t\tnumber 16\n\t\ttakes string\n\t\ttype main.vote {A int; B []string}\n\tsum\n\t\tnumber 17\n\t\tkeeps table(string,main.sum)\n\t\twas tally\n\t\tgone\n\t\tdiscards\n")
	f.Add("location a\nlocation b\n\toutput \"x\\n\"\n")
	f.Add("# a comment\n\nlocation \n\t\t\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := Parse(text)
		if err != nil {
			return
		}
		again := ""
		for _, s := range all {
			again += s.String()
		}
		twice, err := Parse(again)
		if err != nil || len(twice) != len(all) {
			t.Fatalf("%q was read as %q: %d shapes, then %d, %v", text, again, len(all), len(twice), err)
		}
		for i := range all {
			if twice[i].String() != all[i].String() {
				t.Fatalf("%q, then %q", all[i], twice[i])
			}
			for j := range all[i].Operators {
				op := &all[i].Operators[j]
				sent, err := ParseSent(op.Sent())
				if err != nil || sent.Identity != op.Identity || !reflect.DeepEqual(sent.Takes, op.Takes) || !reflect.DeepEqual(sent.Types, op.Types) {
					t.Fatalf("%q was sent as %v, %v", op.Sent(), sent, err)
				}
				if why := op.Misfit(sent); why != "" {
					t.Fatalf("%q does not fit itself: %s", op.Sent(), why)
				}
			}
		}
	})
}
