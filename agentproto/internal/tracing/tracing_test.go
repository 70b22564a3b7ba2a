package tracing

import (
	"net/http"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto"
)

const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestExtract covers the cases of W3C Trace Context, §3.2.
func TestExtract(t *testing.T) {
	for text, want := range map[string]string{
		good:                      good,
		" " + good + " ":          good,
		"01" + good[2:]:           good, // of a later version
		"cc" + good[2:] + "-more": good,
		"cc" + good[2:] + ".more": "",
		"ff" + good[2:]:           "",
		good + "-more":            "",
		good[:54]:                 "",
		strings.ToUpper(good):     "",
		"0g" + good[2:]:           "",
		"00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01":                 "",
		"00-0af7651916cd43dd8448eb211c80319c-" + strings.Repeat("0", 16) + "-01": "",
		"00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":                "",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x":                "",
		"": "",
	} {
		if got := Extract(http.Header{parentHeader: {text}}); got.Parent != want {
			t.Errorf("%q is %q, want %q", text, got.Parent, want)
		}
	}
	if got := Extract(http.Header{parentHeader: {good, good}}); !got.IsZero() {
		t.Errorf("two headers are %v", got)
	}
	for state, want := range map[string]string{"a=1,b=2": "a=1,b=2", strings.Repeat("x", 513): "", "a=\x01": ""} {
		if got := Extract(http.Header{parentHeader: {good}, stateHeader: {state}}); got.Parent != good || got.State != want {
			t.Errorf("with the state %q it is %v", state, got)
		}
	}
	if got := Extract(http.Header{stateHeader: {"a=1"}}); got != (agentproto.Trace{}) {
		t.Errorf("a state alone is %v", got)
	}
}

func TestFollows(t *testing.T) {
	is := agentproto.Trace{Parent: good}
	sibling, other := agentproto.Trace{Parent: strings.Replace(good, "b7", "b8", 1)}, agentproto.Trace{Parent: strings.Replace(good, "0af", "0bf", 1)}
	if !Follows(sibling, is) || Follows(other, is) || Follows(agentproto.Trace{}, is) || Follows(is, agentproto.Trace{}) || Follows(agentproto.Trace{}, agentproto.Trace{}) {
		t.Error("which spans follow which is wrong")
	}
}

func FuzzExtract(f *testing.F) {
	f.Add(good, "a=1")
	f.Fuzz(func(t *testing.T, parent, state string) {
		is := Extract(http.Header{parentHeader: {parent}, stateHeader: {state}})
		if is.IsZero() {
			if is.State != "" {
				t.Fatal("a state without a parent")
			}
			return
		}
		h := http.Header{}
		Put(is, h.Set)
		if again := Extract(h); again != is {
			t.Fatalf("%v is read as %v", is, again)
		}
	})
}
