package agentproto

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestDecodeInvocation(t *testing.T) {
	base := `"operation":"op","id":"i","group_id":"g","callback_url":"https://r.example/cb"`
	want := func(change func(*Invocation)) *Invocation {
		i := &Invocation{Operation: "op", Arguments: []byte("{}"), ID: "i", GroupID: "g", CallbackURL: "https://r.example/cb"}
		change(i)
		return i
	}
	for _, test := range []struct {
		name, in string
		want     *Invocation
		err      string
	}{
		{"arguments absent", `{` + base + `}`, want(func(*Invocation) {}), ""},
		{"arguments null", `{` + base + `,"arguments":null,"thread_ancestors":null,"call_id":null,"user_id":null}`, want(func(*Invocation) {}), ""},
		{"arguments", `{` + base + `,"arguments":{"x": 9007199254740993, "X": "\u00e9"}}`, want(func(i *Invocation) { i.Arguments = []byte(`{"x":9007199254740993,"X":"é"}`) }), ""},
		{"arguments array", `{` + base + `,"arguments":[]}`, nil, `member "/arguments" must be an object`},
		{"I02 root", `{` + base + `,"thread_ancestors":[]}`, want(func(*Invocation) {}), ""},
		{"I02 child", `{` + base + `,"thread_ancestors":["root","parent"]}`, want(func(i *Invocation) { i.ThreadAncestors = []string{"root", "parent"} }), ""},
		{"I02 bad ancestor", `{` + base + `,"thread_ancestors":["root","\n"]}`, nil, `member "/thread_ancestors/1" has a control character`},
		{"A04 no id", `{"operation":"op","group_id":"g","callback_url":"https://r.example/cb"}`, nil, `member "/id" is missing`},
		{"A04 no callback_url", `{"operation":"op","id":"i","group_id":"g"}`, nil, `member "/callback_url" is missing`},
		{"A04 no group_id", `{"operation":"op","id":"i","callback_url":"https://r.example/cb"}`, nil, `member "/group_id" is missing`},
		{"A04 no operation", `{"id":"i","group_id":"g","callback_url":"https://r.example/cb"}`, nil, `member "/operation" is missing`},
		{"A04 malformed", `{` + base, nil, `invocation: message ends early`},
		{"Z05 file", `{"operation":"op","id":"i","group_id":"g","callback_url":"file:///etc/passwd"}`, nil, `member "/callback_url" must be an absolute http or https URL`},
		{"Z05 relative", `{"operation":"op","id":"i","group_id":"g","callback_url":"/cb"}`, nil, `member "/callback_url" must be an absolute http or https URL`},
		{"Z05 port 0", `{"operation":"op","id":"i","group_id":"g","callback_url":"http://r.example:0/cb"}`, nil, `member "/callback_url" must have a port from 1 to 65535`},
		{"Z05 large port", `{"operation":"op","id":"i","group_id":"g","callback_url":"http://r.example:65536/cb"}`, nil, `member "/callback_url" must have a port from 1 to 65535`},
		{"Z05 endless port", `{"operation":"op","id":"i","group_id":"g","callback_url":"http://r.example:18446744073709551696/cb"}`, nil, `member "/callback_url" must have a port from 1 to 65535`},
		{"A12 call_id", `{` + base + `,"call_id":"x"}`, want(func(i *Invocation) { i.CallID = ptr("x") }), ""},
		{"user_id", `{` + base + `,"user_id":"u"}`, want(func(i *Invocation) { i.UserID = ptr("u") }), ""},
		{"user_id empty", `{` + base + `,"user_id":""}`, nil, `member "/user_id" must not be empty`},
		{"older revision", `{` + base + `,"toolset_version":"3"}`, want(func(*Invocation) {}), ""},
		{"W01 twice in arguments", `{` + base + `,"arguments":{"a":1,"a":2}}`, nil, `member "/arguments/a" is there twice`},
		{"W10 1e400 in arguments", `{` + base + `,"arguments":{"a":1e400}}`, nil, `member "/arguments/a" is a number out of range`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := DecodeInvocation([]byte(test.in), Limits{})
			if test.err != "" {
				var merr *MessageError
				if got != nil || !errors.As(err, &merr) || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("DecodeInvocation(%s) = %v, %v, want error %q", test.in, got, err, test.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Fatalf("DecodeInvocation(%s) = %+v, %v, want %+v", test.in, got, err, test.want)
			}
		})
	}
}

func TestDecodeLifecycle(t *testing.T) {
	for _, test := range []struct {
		name, in string
		decode   func(string) (any, error)
		want     any
		err      string
	}{
		{"X01 close", `{"thread_id":"t"}`, decoder(DecodeCloseThread), &CloseThread{"t"}, ""},
		{"X04 traversal", `{"thread_id":"../../etc"}`, decoder(DecodeCloseThread), &CloseThread{"../../etc"}, ""},
		{"X04 NUL", `{"thread_id":"a\u0000"}`, decoder(DecodeCloseThread), nil, `close_thread: member "/thread_id" has a control character`},
		{"X04 1 MB", `{"thread_id":"` + strings.Repeat("a", 1<<20) + `"}`, decoder(DecodeCloseThread), nil, `close_thread: message is larger than 1048576 bytes`},
		{"K04 cancel", `{"thread_id":"t","tool_call_id":"i"}`, decoder(DecodeCancelToolCall), &CancelToolCall{"t", "i"}, ""},
		{"K05 cancel without thread", `{"tool_call_id":"i"}`, decoder(DecodeCancelToolCall), nil, `cancel_tool_call: member "/thread_id" is missing`},
		{"G02 migrate", `{"session_id":"s","destination_url":"http://10.0.0.1:80"}`, decoder(DecodeMigrate), &Migrate{"s", "http://10.0.0.1:80"}, ""},
		{"G10 file", `{"session_id":"s","destination_url":"file:///x"}`, decoder(DecodeMigrate), nil, `migrate: member "/destination_url" must be an absolute http or https URL`},
		{"U01 answer", `{"id":"i","selected":1}`, decoder(DecodeChoiceResponse), &ChoiceResponse{ID: "i", Selected: 1}, ""},
		{"U09 negative", `{"id":"i","selected":-1}`, decoder(DecodeChoiceResponse), &ChoiceResponse{ID: "i", Selected: -1}, ""},
		{"U09 the largest", `{"id":"i","selected":2147483647}`, decoder(DecodeChoiceResponse), &ChoiceResponse{ID: "i", Selected: math.MaxInt32}, ""},
		{"U09 too large", `{"id":"i","selected":2147483648}`, decoder(DecodeChoiceResponse), nil, `choice_response: member "/selected" must be an integer of at most 32 bits`},
		{"U09 the smallest", `{"id":"i","selected":-2147483648}`, decoder(DecodeChoiceResponse), &ChoiceResponse{ID: "i", Selected: math.MinInt32}, ""},
		{"U09 too small", `{"id":"i","selected":-2147483649}`, decoder(DecodeChoiceResponse), nil, `choice_response: member "/selected" must be an integer of at most 32 bits`},
		{"U09 string", `{"id":"i","selected":"1"}`, decoder(DecodeChoiceResponse), nil, `choice_response: member "/selected" must be an integer`},
		{"a form", `{"id":"i","selected":1,"x-values":{"q":{"a":1},"r":null}}`, decoder(DecodeChoiceResponse), &ChoiceResponse{ID: "i", Selected: 1, Values: []byte(`{"q":{"a":1},"r":null}`)}, ""},
		{"a form that is none", `{"id":"i","selected":1,"x-values":[]}`, decoder(DecodeChoiceResponse), &ChoiceResponse{ID: "i", Selected: 1, Values: []byte(`[]`)}, ""},
		{"U09 null", `{"id":"i","selected":null}`, decoder(DecodeChoiceResponse), nil, `choice_response: member "/selected" is missing`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.decode(test.in)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("decode(%.100s) = %v, %v, want error %q", test.in, got, err, test.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Fatalf("decode(%.100s) = %+v, %v, want %+v", test.in, got, err, test.want)
			}
		})
	}
}

func decoder[M any](decode func([]byte, Limits) (M, error)) func(string) (any, error) {
	return func(s string) (any, error) { return decode([]byte(s), Limits{}) }
}
