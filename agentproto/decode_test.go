package agentproto

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// resultJSON returns a tool_result with additional members.
func resultJSON(members string) string {
	return `{"type":"tool_result","group_id":"g","id":"i"` + members + `}`
}

func choiceJSON(members string) string {
	return `{"type":"user_choice","group_id":"g","id":"i","prompt":"Really?"` + members + `}`
}

func ptr(s string) *string { return &s }

// nested returns depth nested arrays.
func nested(depth int) string {
	return strings.Repeat("[", depth) + strings.Repeat("]", depth)
}

func TestDecodeCallback(t *testing.T) {
	ok := &ToolResult{GroupID: "g", ID: "i", Text: ptr("ok")}
	two := &UserChoice{GroupID: "g", ID: "i", Prompt: "Really?", Choices: []string{"a", "b", "c"}, Default: 2, ResponseURL: "http://t/r"}
	rest := `,"choices":["a","b","c"],"response_url":"http://t/r"`
	for _, test := range []struct {
		name, in string
		want     Callback
		err      string // of a refused message
	}{
		{"R01 text", resultJSON(`,"text":"ok"`), ok, ""},
		{"R04 text and content", resultJSON(`,"text":"ok","content":[{"type":"text","text":"c"}]`),
			&ToolResult{GroupID: "g", ID: "i", Text: ptr("ok"), Content: []Content{{Type: KindText, Text: "c"}}}, ""},
		{"R05 neither", resultJSON(``), nil, "tool_result: message has neither text nor content"},
		{"R05 both null", resultJSON(`,"text":null,"content":null`), nil, "tool_result: message has neither text nor content"},
		{"R13 displays", resultJSON(`,"text":"ok","display_as":[{"type":"hologram","content":{"x":1}},{"type":"text","content":"t"},{"type":"diff","content":{"path":"p","patch":"q"}},{"type":"image","content":{"data":"AA==","mediaType":"image/png"}}]`),
			&ToolResult{GroupID: "g", ID: "i", Text: ptr("ok"), DisplayAs: []Display{
				{Type: "hologram"}, {Type: KindText, Text: "t"}, {Type: KindDiff, Diff: &Diff{"p", "q"}}, {Type: KindImage, Image: &Image{"AA==", "image/png"}}}}, ""},
		{"R13 empty display_as", resultJSON(`,"text":"ok","display_as":[]`), ok, ""},
		{"R13 bad display", resultJSON(`,"text":"ok","display_as":[{"type":"diff","content":{"path":"p"}}]`), nil, `tool_result: member "/display_as/0/content/patch" is missing`},
		{"R14 bad base64 is for later", resultJSON(`,"content":[{"type":"image","data":"%","mediaType":"x/y"}]`),
			&ToolResult{GroupID: "g", ID: "i", Content: []Content{{Type: KindImage, Data: "%", MediaType: "x/y"}}}, ""},
		{"empty content", resultJSON(`,"content":[]`), &ToolResult{GroupID: "g", ID: "i", Content: []Content{}}, ""},
		{"unknown content", resultJSON(`,"content":[{"type":"audio"}]`), nil, `tool_result: member "/content/0/type" is "audio", which is neither text nor image`},
		{"content of strings", resultJSON(`,"content":["a"]`), nil, `tool_result: member "/content/0" must be an object`},
		{"call_id", resultJSON(`,"text":"ok","call_id":"c/1"`), &ToolResult{GroupID: "g", ID: "i", CallID: ptr("c/1"), Text: ptr("ok")}, ""},
		{"call_id empty", resultJSON(`,"text":"ok","call_id":""`), &ToolResult{GroupID: "g", ID: "i", CallID: ptr(""), Text: ptr("ok")}, ""},
		{"call_id null", resultJSON(`,"text":"ok","call_id":null`), ok, ""},
		{"call_id number", resultJSON(`,"text":"ok","call_id":1`), nil, `tool_result: member "/call_id" must be a string`},
		{"S01 subscription", resultJSON(`,"text":"ok","subscription":true`), &ToolResult{GroupID: "g", ID: "i", Text: ptr("ok"), Subscription: true}, ""},
		{"subscription as text", resultJSON(`,"text":"ok","subscription":"yes"`), nil, `tool_result: member "/subscription" must be a boolean`},

		{"S02 event", `{"type":"subscription_event","group_id":"g","tool_call_id":"i","text":"","associative":true,"final":false}`,
			&SubscriptionEvent{GroupID: "g", ToolCallID: "i", Associative: true}, ""},
		{"S02 event with id", `{"type":"subscription_event","group_id":"g","id":"i","text":"x"}`, nil, `subscription_event: member "/tool_call_id" is missing`},
		{"V01 view", `{"type":"view_update","group_id":"g","view_type":"plan","content":{ "b": "\u0061", "a": 1.50 }}`,
			&ViewUpdate{GroupID: "g", ViewType: "plan", Content: []byte(`{"b":"a","a":1.50}`)}, ""},
		{"V02 content not an object", `{"type":"view_update","group_id":"g","view_type":"plan","content":[]}`, nil, `view_update: member "/content" must be an object`},
		{"V02 content null", `{"type":"view_update","group_id":"g","view_type":"plan","content":null}`, nil, `view_update: member "/content" is missing`},
		{"a long type", `{"type":"` + strings.Repeat("x", 64) + `"}`, nil, `callback: member "/type" is "` + strings.Repeat("x", 64) + `", which is no callback`},
		{"a type that is cut", `{"type":"` + strings.Repeat("x", 65) + `"}`, nil, `callback: member "/type" is "` + strings.Repeat("x", 64) + `…", which is no callback`},
		{"the first that is missing: view", `{"type":"view_update","group_id":"g"}`, nil, `view_update: member "/view_type" is missing`},
		{"the first that is missing: event", `{"type":"subscription_event","group_id":"g"}`, nil, `subscription_event: member "/tool_call_id" is missing`},
		{"the first that is missing: choice", `{"type":"user_choice","group_id":"g","id":"i"}`, nil, `user_choice: member "/prompt" is missing`},
		{"the first that is missing: choices", choiceJSON(``), nil, `user_choice: member "/choices" is missing`},
		{"U03 no choices", choiceJSON(`,"choices":[],"default":0,"response_url":"http://t/r"`), nil, `user_choice: member "/choices" must not be empty`},
		{"U03 default too large", choiceJSON(`,"default":3` + rest), nil, `user_choice: member "/default" must be the index of a choice`},
		{"U03 default negative", choiceJSON(`,"default":-1` + rest), nil, `user_choice: member "/default" must be the index of a choice`},
		{"U03 no response_url", choiceJSON(`,"choices":["a"],"default":0`), nil, `user_choice: member "/response_url" is missing`},
		{"U03 relative response_url", choiceJSON(`,"choices":["a"],"default":0,"response_url":"/r"`), nil, `user_choice: member "/response_url" must be an absolute http or https URL`},

		{"W01 twice", resultJSON(`,"text":"a","text":"b"`), nil, `callback: member "/text" is there twice`},
		{"W01 twice, escaped", resultJSON(`,"text":"a","te\u0078t":"b"`), nil, `callback: member "/text" is there twice`},
		{"W01 twice, inside", resultJSON(`,"text":"ok","x":[{"a":1,"a":2}]`), nil, `callback: member "/x/0/a" is there twice`},
		{"W02 wrong case", `{"type":"tool_result","Group_ID":"g","id":"i","text":"ok"}`, nil, `tool_result: member "/group_id" is missing`},
		{"W02 both cases", resultJSON(`,"text":"ok","Group_ID":"other","TEXT":3`), ok, ""},
		{"W03 invalid UTF-8", resultJSON(`,"text":"` + "\xff" + `"`), nil, `callback: member "/text" is not valid JSON`},
		{"W03 overlong", resultJSON(`,"text":"` + "\xc0\xaf" + `"`), nil, `callback: member "/text" is not valid JSON`},
		{"W03 lone surrogate", resultJSON(`,"text":"\ud800"`), nil, `callback: member "/text" is not valid JSON`},
		{"W03 lone surrogate in a name", resultJSON(`,"text":"ok","\udc00":1`), nil, `is not valid JSON`},
		{"W03 surrogate pair", resultJSON(`,"text":"\ud83d\ude00"`), &ToolResult{GroupID: "g", ID: "i", Text: ptr("😀")}, ""},
		{"W04 depth 64", resultJSON(`,"text":"ok","x":` + nested(63)), ok, ""},
		{"W04 depth 65", resultJSON(`,"text":"ok","x":` + nested(64)), nil, `callback: message nests deeper than 64`},
		{"W04 depth 10 000", resultJSON(`,"text":"ok","x":` + nested(9_999)), nil, `callback: message nests deeper than 64`},
		{"W05 trailing data", resultJSON(`,"text":"ok"`) + `{}`, nil, `callback: message is followed by other data`},
		{"W05 trailing space", resultJSON(`,"text":"ok"`) + "\r\n\t ", ok, ""},
		{"W05 trailing NUL", resultJSON(`,"text":"ok"`) + "\x00", nil, `callback: message is followed by other data`},
		{"W05 array", `[` + resultJSON(`,"text":"ok"`) + `]`, nil, `callback: message is not a JSON object`},
		{"W05 null", `null`, nil, `callback: message is not a JSON object`},
		{"W05 BOM", "\ufeff" + resultJSON(`,"text":"ok"`), nil, `callback: message is not valid JSON at byte 0`},
		{"W05 empty", ``, nil, `callback: message ends early`},
		{"W05 cut off", resultJSON(`,"text":"ok"`)[:30], nil, `callback: message ends early`},
		{"W06 unknown members", resultJSON(`,"text":"ok","x":{"y":[1,null]},"id2":"i"`), ok, ""},
		{"W06 unknown members inside", resultJSON(`,"content":[{"type":"text","text":"c","annotations":{}}]`),
			&ToolResult{GroupID: "g", ID: "i", Content: []Content{{Type: KindText, Text: "c"}}}, ""},
		{"W08 large", resultJSON(`,"text":"` + strings.Repeat("a", 1<<20) + `"`), nil, `callback: message is larger than 1048576 bytes`},
		{"W10 2.0", choiceJSON(`,"default":2.0` + rest), two, ""},
		{"W10 20e-1", choiceJSON(`,"default":20e-1` + rest), two, ""},
		{"W10 1.5", choiceJSON(`,"default":1.5` + rest), nil, `user_choice: member "/default" must be an integer of at most 32 bits`},
		{"W10 2^63", choiceJSON(`,"default":9223372036854775808` + rest), nil, `user_choice: member "/default" must be an integer of at most 32 bits`},
		{"W10 2^32", choiceJSON(`,"default":4294967296` + rest), nil, `user_choice: member "/default" must be an integer of at most 32 bits`},
		{"W10 1e400", choiceJSON(`,"default":1e400` + rest), nil, `callback: member "/default" is a number out of range`},
		{"W10 1e400, unknown", resultJSON(`,"text":"ok","x":[1e400]`), nil, `callback: member "/x/0" is a number out of range`},
		{"W10 1e-400", resultJSON(`,"text":"ok","x":1e-400`), nil, `callback: member "/x" is a number out of range`},
		{"W10 0e-400", resultJSON(`,"text":"ok","x":0e-400`), ok, ""},
		{"W10 many digits", resultJSON(`,"text":"ok","x":` + strings.Repeat("1", 129)), nil, `callback: member "/x" is a number of more than 128 bytes`},
		{"W10 text", choiceJSON(`,"default":"2"` + rest), nil, `user_choice: member "/default" must be an integer`},
		{"W11 emoji and slash", `{"type":"tool_result","group_id":"../g","id":"👩‍💻","text":"ok"}`, &ToolResult{GroupID: "../g", ID: "👩‍💻", Text: ptr("ok")}, ""},
		{"W11 CR LF", `{"type":"tool_result","group_id":"g","id":"a\r\nb","text":"ok"}`, nil, `tool_result: member "/id" has a control character`},
		{"W11 NUL", `{"type":"tool_result","group_id":"g\u0000","id":"i","text":"ok"}`, nil, `tool_result: member "/group_id" has a control character`},
		{"W11 line separator", `{"type":"tool_result","group_id":"g","id":"\u2028","text":"ok"}`, nil, `tool_result: member "/id" has a control character`},
		{"W11 bidi", `{"type":"tool_result","group_id":"g","id":"a\u202eb","text":"ok"}`, nil, `tool_result: member "/id" has a control character`},
		{"W11 1024 bytes", `{"type":"tool_result","group_id":"g","id":"` + strings.Repeat("i", 1024) + `","text":"ok"}`, &ToolResult{GroupID: "g", ID: strings.Repeat("i", 1024), Text: ptr("ok")}, ""},
		{"W11 1025 bytes", `{"type":"tool_result","group_id":"g","id":"` + strings.Repeat("i", 1025) + `","text":"ok"}`, nil, `tool_result: member "/id" is longer than 1024 bytes`},
		{"W11 empty", `{"type":"tool_result","group_id":"","id":"i","text":"ok"}`, nil, `tool_result: member "/group_id" must not be empty`},
		{"W11 call_id", resultJSON(`,"text":"ok","call_id":"\u001b[2J"`), nil, `tool_result: member "/call_id" has a control character`},

		{"no type", `{"group_id":"g","id":"i","text":"ok"}`, nil, `callback: member "/type" is missing`},
		{"unknown type", `{"type":"tool_results","group_id":"g","id":"i","text":"ok"}`, nil, `callback: member "/type" is "tool_results", which is no callback`},
		{"type number", `{"type":1}`, nil, `callback: member "/type" must be a string`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := DecodeCallback([]byte(test.in), Limits{})
			if test.err != "" {
				var merr *MessageError
				if got != nil || !errors.As(err, &merr) || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("DecodeCallback(%.200s) = %v, %v, want error %q", test.in, got, err, test.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Fatalf("DecodeCallback(%.200s) = %+v, %v, want %+v", test.in, got, err, test.want)
			}
		})
	}
}

// TestAuthURL checks that an auth_url that could mislead a person is refused (case O02). The error names the
// call, so that the call can be resolved.
func TestAuthURL(t *testing.T) {
	for _, test := range []struct{ url, want string }{
		{"https://login.example/authorize?scope=a%20b&state=x#y", ""},
		{"https://login.example:8443/a", ""},
		{"HTTPS://login.example", ""},
		{"http://login.example", "must be an https URL"},
		{"javascript:alert(1)", "must be an https URL"},
		{"data:text/html,x", "must be an https URL"},
		{"//login.example", "must be an https URL"},
		{"", "must not be empty"},
		{"https://", "must have a host"},
		{"https:///path", "must have a host"},
		{"https:login.example", "must have a host"},
		{"https://:443/", "must have a host"},
		{"https://login.example:0/", "must have a port from 1 to 65535"},
		{"https://login.example:65536/", "must have a port from 1 to 65535"},
		{"https://login.example:65535/", ""},
		{"https://login.example@evil.example/", "must not have a user name"},
		{"https://u:p@login.example/", "must not have a user name"},
		{"https://login.example/\u0001", "has a blank or invisible character"},
		{"https://login.example/\n", "has a blank or invisible character"},
		{"https://login.example/a b", "has a blank or invisible character"},
		{"https://login.example/\u202egro.example", "has a blank or invisible character"},
		{"https://login.example/\u200b", "has a blank or invisible character"},
		{"https://login.example/\u0085", "has a blank or invisible character"},
		{`https://login.example/\evil`, "must not have a backslash"},
		{`https://login.example\@evil.example/`, "is not a URL"},
		{"https://login.example/%zz", "is not a URL"},
		{"https://login.example/" + strings.Repeat("a", 10_000), "is too long"},
	} {
		o := &OAuth{GroupID: "g", ID: "i", AuthURL: test.url}
		_, err := Encode(o)
		if test.want == "" {
			if err != nil {
				t.Errorf("Encode(OAuth{%q}) = %v, want none", test.url, err)
			}
			continue
		}
		var merr *MessageError
		if !errors.As(err, &merr) || merr.Reason != test.want || merr.Member != "/auth_url" || merr.Key != o.Key() || merr.Status != 400 {
			t.Errorf("Encode(OAuth{%q}) = %+v, want %q", test.url, err, test.want)
		}
	}
}

func TestMessageErrorKey(t *testing.T) {
	for _, test := range []struct {
		in   string
		want CallKey
	}{
		{resultJSON(``), CallKey{"g", "i"}},
		{resultJSON(`,"text":1`), CallKey{"g", "i"}},
		{`{"type":"oauth","group_id":"g","id":"i"}`, CallKey{"g", "i"}},
		{`{"type":"subscription_event","group_id":"g","tool_call_id":"i"}`, CallKey{"g", "i"}},
		{`{"type":"view_update","group_id":"g"}`, CallKey{"g", ""}},
		{`{"type":"unheard","group_id":"g","id":"i"}`, CallKey{"g", "i"}},
		{`{"group_id":"g","id":"i"}`, CallKey{"g", "i"}},
		{`{"type":"tool_result","id":"i"}`, CallKey{"", "i"}},
		{`{"type":"tool_result","group_id":"g","id":"\n","text":""}`, CallKey{"g", ""}},
		{`{"type":"tool_result","group_id":"g","id":"i","id":"i"}`, CallKey{}},
	} {
		_, err := DecodeCallback([]byte(test.in), Limits{})
		var merr *MessageError
		if !errors.As(err, &merr) || merr.Key != test.want {
			t.Errorf("DecodeCallback(%s) = %+v, want an error for %v", test.in, err, test.want)
		}
	}
	_, err := DecodeCallback([]byte(resultJSON(``)), Limits{})
	if !errors.Is(err, ErrNoOutcome) {
		t.Errorf("error of an empty result = %v, want ErrNoOutcome", err)
	}
	if _, err := DecodeCallback([]byte(resultJSON(`,"text":1`)), Limits{}); errors.Is(err, ErrNoOutcome) {
		t.Errorf("error of a bad text = %v, want another than ErrNoOutcome", err)
	}
}

// TestLimits decodes one message at each limit and one above it. It catches a limit that is off by one and
// refuses what a peer may send.
func TestLimits(t *testing.T) {
	in := []byte(resultJSON(`,"text":"0123456789","x":[1,2,[123456]]`))
	for _, test := range []struct {
		lim    Limits
		status int // 0: accepted
	}{
		{Limits{}, 0},
		{Limits{Bytes: int64(len(in))}, 0},
		{Limits{Bytes: int64(len(in)) - 1}, 413},
		{Limits{Depth: 3}, 0},
		{Limits{Depth: 2}, 400},
		{Limits{Members: 9}, 0},
		{Limits{Members: 8}, 400},
		{Limits{StringBytes: len("tool_result")}, 0}, // the longest one
		{Limits{StringBytes: len("tool_result") - 1}, 413},
		{Limits{NumberBytes: 6}, 0},
		{Limits{NumberBytes: 5}, 400},
	} {
		_, err := DecodeCallback(in, test.lim)
		var merr *MessageError
		if errors.As(err, &merr) != (test.status != 0) || merr != nil && merr.Status != test.status {
			t.Errorf("DecodeCallback with %+v = %v, want status %d", test.lim, err, test.status)
		}
	}
}

// TestDecodeDoesNotAlias checks that a decoded message does not change when its input buffer is reused.
func TestDecodeDoesNotAlias(t *testing.T) {
	in := []byte(`{"operation":"op","arguments":{"a":"b"},"id":"i","group_id":"g","callback_url":"http://r/cb","thread_ancestors":["t"]}`)
	i, err := DecodeInvocation(in, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	want, _ := Encode(i)
	clear(in)
	if got, err := Encode(i); err != nil || string(got) != string(want) {
		t.Fatalf("after clearing the buffer: %s, %v, want %s", got, err, want)
	}
}

func TestToolResult(t *testing.T) {
	pixel := "iVBORw0KGgo="
	for _, test := range []struct {
		name string
		r    *ToolResult
		want string
		fail bool
	}{
		{"R01", &ToolResult{Text: ptr("plain")}, "plain", false},
		{"R03", &ToolResult{Content: []Content{{Type: KindText, Text: "a"}, {Type: KindImage, Data: pixel, MediaType: "image/png"}}}, "a\n[image: image/png, 8 bytes]", false},
		{"R04", &ToolResult{Text: ptr("Error: t"), Content: []Content{{Type: KindText, Text: "c"}}}, "c", false},
		{"R14 base64", &ToolResult{Content: []Content{{Type: KindImage, Data: "iVBORw0KGgo", MediaType: "image/png"}}}, "[image: unusable]", false},
		{"R14 type", &ToolResult{Content: []Content{{Type: KindImage, Data: pixel, MediaType: "image/\n"}}}, "[image: unusable]", false},
		{"none", &ToolResult{}, "(no output)", false},
		{"empty", &ToolResult{Content: []Content{}}, "(no output)", false},
		{"empty text", &ToolResult{Text: ptr("")}, "", false},
		{"empty, and text", &ToolResult{Text: ptr("t"), Content: []Content{}}, "t", false},
		{"empty, and an error", &ToolResult{Text: ptr("Error: t"), Content: []Content{}}, "Error: t", true},
		{"error", ErrorResult(CallKey{"g", "i"}, nil, "no %s", "token\xff"), "Error: no token\uFFFD", true},
		{"error in content", &ToolResult{Content: []Content{{Type: KindText, Text: "Error: x"}}}, "Error: x", true},
		{"almost an error", &ToolResult{Text: ptr("Error:x")}, "Error:x", false},
	} {
		if got := test.r.String(); got != test.want {
			t.Errorf("%s: String() = %q, want %q", test.name, got, test.want)
		}
		if got := test.r.IsError(); got != test.fail {
			t.Errorf("%s: IsError() = %v, want %v", test.name, got, test.fail)
		}
	}
	if _, err := Encode(ErrorResult(CallKey{"g", "i"}, ptr("c"), "%s", "\xff")); err != nil {
		t.Errorf("Encode(ErrorResult) = %v", err)
	}
}

// TestBorders tries values at the borders of what is accepted and shown. It catches a border that is off by
// one.
func TestBorders(t *testing.T) {
	if l := (Limits{Bytes: 1 << 40}).orDefaults(); l.StringBytes != 1<<31-1 {
		t.Errorf("a string may have %d bytes, want what fits in 32 bits", l.StringBytes)
	}
	for n, shown := range map[int]bool{64: true, 65: false} {
		kind := strings.Repeat("x", n)
		_, err := DecodeCallback([]byte(`{"type":"tool_result","group_id":"g","id":"i","content":[{"type":"`+kind+`"}]}`), Limits{})
		if err == nil || strings.Contains(err.Error(), kind) != shown {
			t.Errorf("a type of %d bytes: %v", n, err)
		}
	}
	for n, fine := range map[int]bool{128: true, 129: false} {
		manifest := `{"name":"s","endpoint":"https://tool.test/i","tools":[{"name":"` + strings.Repeat("n", n) + `","description":"d","inputSchema":{}}]}`
		if _, err := DecodeManifest([]byte(manifest), Limits{}); (err == nil) != fine {
			t.Errorf("a name of %d characters: %v", n, err)
		}
	}
}
