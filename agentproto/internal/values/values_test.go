package values

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto"
)

func TestArguments(t *testing.T) {
	type in struct {
		N    int
		List []uint8
		Text string
	}
	for text, want := range map[string]string{
		`{"N":2,"List":[1,2],"Text":"2.0"}`:  "",
		`{"N":2.0,"List":[1e1,2],"Text":""}`: "", // they are integers for a schema
		`{"N":9007199254740994.0}`:           `member "/N" is out of range`,
		`{"N":2.5}`:                          `member "/N" is out of range`,
		`{"List":[256]}`:                     `member "/List`,
		`[]`:                                 "the arguments are not valid",
	} {
		got, err := Arguments[in]([]byte(text))
		if want == "" && (err != nil || got.N != 2 || len(got.List) != 2) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestResultOf(t *testing.T) {
	inv := &agentproto.Invocation{GroupID: "g", ID: "c"}
	for _, c := range []struct {
		out  any
		want string
	}{
		{"text", "text"}, {7, "7"}, {map[string]string{"a": "<b>"}, `{"a":"<b>"}`}, {"bad \xff", "bad \uFFFD"},
		{agentproto.ErrorResult(agentproto.CallKey{}, nil, "%s", "own"), "Error: own"},
	} {
		r, err := ResultOf(inv, c.out)
		if err != nil || r.GroupID != "g" || r.ID != "c" || r.Text == nil || *r.Text != c.want {
			t.Errorf("%v: %+v, %v", c.out, r, err)
		}
	}
	if _, err := ResultOf(inv, (*agentproto.ToolResult)(nil)); err == nil {
		t.Error("no result is one")
	}
	if _, err := ResultOf(inv, func() {}); err == nil {
		t.Error("a function is a result")
	}
}
