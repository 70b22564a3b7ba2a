package agentproto_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
)

// TestProgressOf checks that the progress in a view is read despite other fields, as text that is safe to show.
func TestProgressOf(t *testing.T) {
	for content, want := range map[string]string{
		`{"progress":3,"total":10,"message":"reads","tool":"x","more":[1]}`: "reads",
		`{"progress":3,"total":10}`:                                         "3 of 10",
		`{"progress":0.5}`:                                                  "0.5",
		`{}`:                                                                "0",
		`{"message":"a\u202eb\u0000c"}`:                                     "abc",
		`{"progress":"3"}`:                                                  "none",
		`{"progress":1e999}`:                                                "none",
		`{"progress":null,"total":null}`:                                    "0",
		`{"message":1}`:                                                     "none",
		`{"progress":-1,"total":-1}`:                                        "-1",
		`{"progress":1,"progress":2}`:                                       "none",
		`{"message":"` + "\xff" + `"}`:                                      "none",
	} {
		p, ok := agentproto.ProgressOf(jsontext.Value(content))
		got := p.String()
		if !ok {
			got = "none"
		}
		if got != want {
			t.Errorf("%s is %q, want %q", content, got, want)
		}
	}
	long := `{"message":"` + strings.Repeat("x", 100_000) + `"}`
	if p, ok := agentproto.ProgressOf(jsontext.Value(long)); !ok || len(p.Message) > 1100 {
		t.Errorf("a long message has %d bytes", len(p.Message))
	}
}
