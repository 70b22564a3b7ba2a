package agentproto

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// TestFirstAnswerCounts fills in a form with several answers. The first answer to a question counts. An answer that adds nothing
// is a repetition.
func TestFirstAnswerCounts(t *testing.T) {
	open := &openDetour{Choice: &UserChoice{Form: jsontext.Value(`{"questions":[
		{"name":"a","message":"A?","schema":{"type":"object","properties":{"x":{"type":"string"}}}},
		{"name":"b","message":"B?","schema":{"type":"object","properties":{"x":{"type":"string"}}}}]}`)}}
	for _, tt := range []struct {
		answer, want string
		more, all    bool
	}{
		{`{"a":{"x":"first"}}`, `{"a":{"x":"first"}}`, true, false},
		{`{"a":{"x":"later"}}`, `{"a":{"x":"first"}}`, false, false},
		{`{"a":null}`, `{"a":{"x":"first"}}`, false, false},
		{`{"c":{"x":"of no question"}}`, ``, false, false},
		{`{"a":{"x":"later"},"b":{"x":"second"}}`, `{"a":{"x":"first"},"b":{"x":"second"}}`, true, true},
	} {
		values, more, all := filled(open, jsontext.Value(tt.answer))
		if string(values) != tt.want || more != tt.more || all != tt.all {
			t.Errorf("%s makes %s, %t, %t; want %s, %t, %t", tt.answer, values, more, all, tt.want, tt.more, tt.all)
		}
		if more {
			open.Values = values
		}
	}
}
