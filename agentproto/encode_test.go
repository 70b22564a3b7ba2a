package agentproto

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// messages returns a full and a minimal message of each kind, by the name of the golden
// file.
func messages() map[string]any {
	key := CallKey{"thread-1", "call-1"}
	return map[string]any{
		"tool_result": &ToolResult{GroupID: "thread-1", ID: "call-1", CallID: ptr("fc_1"), Text: ptr("<b> & \u2028 \"é\""), Subscription: true,
			Content:   []Content{{Type: KindText, Text: ""}, {Type: KindImage, Data: "AA==", MediaType: "image/png"}},
			DisplayAs: []Display{{Type: "chart"}, {Type: KindText, Text: ""}, {Type: KindDiff, Diff: &Diff{"a.go", "@@"}}, {Type: KindImage, Image: &Image{"AA==", "image/png"}}}},
		"tool_result_minimal":        ErrorResult(key, nil, "access denied"),
		"subscription_event":         &SubscriptionEvent{GroupID: "thread-1", ToolCallID: "call-1", Text: "x", Associative: true, Final: true},
		"subscription_event_minimal": &SubscriptionEvent{GroupID: "thread-1", ToolCallID: "call-1"},
		"oauth":                      &OAuth{GroupID: "thread-1", ID: "call-1", CallID: ptr("fc_1"), AuthURL: "https://login.example/a?b=c&d"},
		"user_choice":                &UserChoice{GroupID: "thread-1", ID: "call-1", Prompt: "Delete?", Choices: []string{"No", "Yes"}, ResponseURL: "http://tool.example/r/1"},
		"view_update":                &ViewUpdate{GroupID: "thread-1", ViewType: "plan", Content: []byte(` {"z": 1e2, "a": "\u0041"} `)},
		"invocation": &Invocation{Operation: "read", Arguments: []byte(`{"path":"/x"}`), ID: "call-1", CallID: ptr("fc_1"),
			CallbackURL: "https://runtime.example/cb/1", GroupID: "thread-1", ThreadAncestors: []string{"root"}, UserID: ptr("u")},
		"invocation_minimal": &Invocation{Operation: "read", ID: "call-1", CallbackURL: "https://runtime.example/cb/1", GroupID: "thread-1"},
		"manifest": &Manifest{Name: "files", Description: "Files.", Endpoint: "https://tool.example/rap", NeedsMigration: true, Tools: []Tool{
			{Name: "read", Description: "Reads.", InputSchema: []byte(`{"type":"object"}`), DisplayScript: "1",
				Annotations: Annotations{RequiresAuth: "github", ReadOnly: true, LongRunning: true}},
			{Name: "write", Description: "", InputSchema: []byte(`{}`)}}},
		"choice_response":  ChoiceResponse{ID: "call-1"},
		"close_thread":     CloseThread{ThreadID: "thread-1"},
		"cancel_tool_call": CancelToolCall{ThreadID: "thread-1", ToolCallID: "call-1"},
		"migrate":          Migrate{SessionID: "thread-1", DestinationURL: "http://10.1.2.3:8080"},
	}
}

func TestEncodeGolden(t *testing.T) {
	for name, message := range messages() {
		got, err := Encode(message)
		if err != nil {
			t.Errorf("Encode(%s): %v", name, err)
			continue
		}
		file := filepath.Join("testdata", "golden", name+".json")
		if *update {
			if err := os.WriteFile(file, append(got, '\n'), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(got)+"\n" != string(want) {
			t.Errorf("Encode(%s) = %s, want %s", name, got, want)
		}
	}
}

func TestEncodeRefuses(t *testing.T) {
	for _, test := range []struct {
		name    string
		message any
		member  string
	}{
		{"no outcome", &ToolResult{GroupID: "g", ID: "i"}, ""},
		{"no group", &ToolResult{ID: "i", Text: ptr("")}, "/group_id"},
		{"unknown content", &ToolResult{GroupID: "g", ID: "i", Content: []Content{{Type: "audio"}}}, "/content/0/type"},
		{"display without diff", &ToolResult{GroupID: "g", ID: "i", Text: ptr(""), DisplayAs: []Display{{Type: KindDiff}}}, "/display_as/0/content"},
		{"view of an array", &ViewUpdate{GroupID: "g", ViewType: "v", Content: []byte(`[]`)}, "/content"},
		{"view of nothing", &ViewUpdate{GroupID: "g", ViewType: "v"}, "/content"},
		{"manifest without tools", &Manifest{Name: "n", Endpoint: "http://x"}, "/tools"},
		{"choice out of range", &UserChoice{GroupID: "g", ID: "i", Choices: []string{"a"}, Default: 1, ResponseURL: "http://x"}, "/default"},
	} {
		_, err := Encode(test.message)
		var merr *MessageError
		if !errors.As(err, &merr) || merr.Member != test.member {
			t.Errorf("%s: Encode = %v, want an error at %q", test.name, err, test.member)
		}
	}
	for name, message := range map[string]any{
		"nil":                 nil,
		"nil pointer":         (*ToolResult)(nil),
		"nil invocation":      (*Invocation)(nil),
		"no message":          "text",
		"another struct":      Diff{},
		"invalid UTF-8":       CloseThread{"\xff"},
		"arguments not JSON":  &Invocation{Operation: "op", ID: "i", GroupID: "g", CallbackURL: "http://r", Arguments: []byte(`{`)},
		"arguments repeating": &Invocation{Operation: "op", ID: "i", GroupID: "g", CallbackURL: "http://r", Arguments: []byte(`{"a":1,"a":2}`)},
	} {
		if data, err := Encode(message); err == nil {
			t.Errorf("Encode(%s) = %s, want an error", name, data)
		}
	}
}
