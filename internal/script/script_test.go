package script

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the out section of each script")

// TestScripts runs the conversations in testdata. It catches a wrong answer of a flow, and
// an answer that depends on something that must not matter.
func TestScripts(t *testing.T) {
	Run(t, "testdata/*.txtar", flows, Options{Update: *update})
}

// TestErrors checks that error messages say where and what is wrong.
func TestErrors(t *testing.T) {
	file := func(flow, in string) string {
		return "Why.\n-- flow --\n" + flow + "\n-- in --\n" + in + "\n-- out --\n"
	}
	tests := []struct{ name, text, want string }{
		{"nothing", "", "x:1: a script has the sections flow, in, out: flow is missing"},
		{"no story", "-- flow --\nlimit\n-- in --\n", "x:1: the first lines do not say why the script exists"},
		{"no conversation", "Why.\n-- flow --\nlimit\n", "x:1: a script has the sections flow, in, out: in is missing"},
		{"sections in another order", "Why.\n-- in --\n", `x:2: the section "in" is not expected here: a script has the sections flow, in, out, in this order`},
		{"a section too many", file("limit", "") + "-- out --\n", `x:7: the section "out" is not expected here: a script has the sections flow, in, out, in this order`},
		{"two flows", file("limit\nfirst", ""), "x:1: the section flow has 2 lines, and wants one: the name of a flow and its arguments"},
		{"an argument without a value", file("limit n", ""), `x:3: "n" is no argument: it has to be name=value, and each name once`},
		{"an argument twice", file("limit n=1 n=2", ""), `x:3: "n=2" is no argument: it has to be name=value, and each name once`},
		{"no verb", file("limit", "\nsay xs 1"), `x:6: "say" is no verb: a line begins with send, put, close, tick or wait`},
		{"no value", file("limit", "send xs"), `x:5: "send xs": want send INPUT VALUE, or send INPUT KEY VALUE`},
		{"no key", file("limit", "put xs 1"), `x:5: "put xs 1": want put INPUT KEY VALUE`},
		{"a tick of something", file("limit", "tick 1"), `x:5: "tick 1": want tick`},
		{"no time", file("limit", "wait long"), `x:5: "long" is no time to wait, such as 5s`},
		{"back in time", file("limit", "wait -1s"), `x:5: "-1s" is no time to wait, such as 5s`},

		{"no flow", file("limits", ""), `x:3: there is no flow "limits"`},
		{"no such argument", file("limit m=1", ""), "x:3: the flow limit has no argument m"},
		{"no number as an argument", file("limit n=two", ""), "x:3: the flow limit panics while it is built: script: the argument n is no number"},
		{"no input", file("limit", "tick\nsend ys 1"), `x:6: send: there is no input "ys": the flow has xs`},
		{"no number", file("limit", "send xs one"), `x:5: send xs: "one" is no number`},
		{"the other verb", file("limit", "put xs 1 2"), "x:5: put: the input xs takes send"},
		{"one word for two", file("first", "send values a"), `x:5: send values: "a" is one word: want a key and a value`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, err := Parse("x", []byte(test.text))
			if err == nil {
				_, err = s.play(t, flows, Options{})
			}
			if err == nil || err.Error() != test.want {
				t.Errorf("got %v\nwant %s", err, test.want)
			}
		})
	}
}

// TestDifferences checks that a flow whose output depends on timing is reported as such.
func TestDifferences(t *testing.T) {
	s, err := Parse("x", []byte("Why.\n-- flow --\nbatches\n-- in --\nsend xs 1\nsend xs 2\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.play(t, flows, Options{Schedules: 5})
	if err != nil {
		t.Fatal(err)
	}
	want := "tick 1\n  batches [1 2]\nbut one record at a time, in other steps, in some schedule\n  tick 1\n    batches [1]\n    batches [2]\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestStory checks that empty lines around the story do not belong to it, and that spaces do.
func TestStory(t *testing.T) {
	s, err := Parse("x", []byte("\n \n -- why --\n\nso \n\n-- flow --\nf\n-- in --\n"))
	if err != nil || s.Story != " -- why --\n\nso " {
		t.Errorf("%q, %v", s.Story, err)
	}
}

// FuzzParse parses arbitrary bytes. A script that was parsed must be the same after it is
// formatted and parsed again.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("Why.\n-- flow --\nf a=b\n-- in --\nwait 1ms\n# nothing\nput x k v w\n"))
	f.Add([]byte("-- flow --\n-- in --\n"))
	f.Add([]byte(" -- a --\n-- flow --\nf\n-- in --\n-- out --\n-- b -- \n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("x", data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "x:") {
				t.Errorf("the message does not say where: %v", err)
			}
			return
		}
		again, err := Parse("x", s.Format())
		if err != nil {
			t.Fatalf("%v\n%s", err, s.Format())
		}
		if !bytes.Equal(again.Format(), s.Format()) || again.Flow != s.Flow || len(again.Lines) != len(s.Lines) {
			t.Errorf("written and read again it is\n%s\nand was\n%s", again.Format(), s.Format())
		}
	})
}
