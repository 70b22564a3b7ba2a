package conform_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	strict "github.com/go-json-experiment/json"

	"github.com/millrace/millrace/agentproto/conform"
)

// A minimal is a tool server with only what a runtime needs to call its one tool: a
// manifest and an address for calls. It follows the protocol, is slow, puts arbitrary text
// in its acknowledgements, and has no notifications.
type minimal struct {
	slow  time.Duration
	added map[string]int // further paths and the status each answers with

	calls sync.WaitGroup
	url   string
}

func (m *minimal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status := m.added[r.URL.Path]; status != 0 {
		w.WriteHeader(status)
		fmt.Fprint(w, `{"ok":true}`)
		return
	}
	switch r.Method + r.URL.Path {
	case "GET/.well-known/rap-toolset":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"name":"minimal","endpoint":%q,"tools":[{"name":"greet","description":"Greets.","inputSchema":{"type":"object"}}]}`, m.url+"/call")
	case "POST/call":
		var call struct {
			Operation   string  `json:"operation"`
			ID          string  `json:"id"`
			CallID      *string `json:"call_id"`
			CallbackURL string  `json:"callback_url"`
			GroupID     string  `json:"group_id"`
			Arguments   struct {
				Name string `json:"name"`
			} `json:"arguments"`
		}
		if err := strict.UnmarshalRead(r.Body, &call); err != nil || call.Operation == "" || call.ID == "" || call.CallbackURL == "" || call.GroupID == "" {
			http.Error(w, "that is no call", http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, `{"ok":true}`)
		m.calls.Go(func() {
			<-time.After(m.slow)
			text := "Good day, " + call.Arguments.Name
			if call.Operation != "greet" {
				text = "Error: there is no such tool"
			}
			result, err := json.Marshal(map[string]any{"type": "tool_result", "group_id": call.GroupID, "id": call.ID, "call_id": call.CallID, "text": text})
			if err != nil {
				return
			}
			if resp, err := http.Post(call.CallbackURL, "application/json", bytes.NewReader(result)); err == nil {
				resp.Body.Close()
			}
		})
	default:
		http.NotFound(w, r)
	}
}

// report runs the cases against the server and returns the report.
func (m *minimal) report(t *testing.T, opts conform.Options, roles map[string]conform.Role) *conform.Report {
	t.Helper()
	server := httptest.NewServer(m)
	defer server.Close()
	m.url = server.URL
	report, err := conform.RunTool(t.Context(), conform.ToolTarget{Profile: conform.ToolProfile{URL: server.URL, Roles: roles}}, opts)
	if err != nil {
		t.Fatal(err)
	}
	m.calls.Wait()
	return report
}

var greets = map[string]conform.Role{"any": {Operation: "greet", Arguments: json.RawMessage(`{"name":"Ada"}`), Result: "^Good day, Ada$"}}

// TestMinimalTool checks that a server that implements only the protocol's requirements
// fails no required case.
func TestMinimalTool(t *testing.T) {
	t.Parallel()
	report := (&minimal{slow: 200 * time.Millisecond}).report(t, conform.Options{}, greets)
	for _, r := range report.Results {
		if r.Level == conform.Must && r.Status == conform.Failed || r.Status == conform.Errored {
			t.Errorf("%s: %s %s", r.ID, r.Status, r.Reason)
		}
	}
	for status, ids := range map[conform.Status]string{
		conform.Passed:       "D01 A02 A04 A12 C02 C08 W03 W06 W10",
		conform.Inapplicable: "K04 K05 K06 K07 X04 X05 S14 S15 A01 A06",
		conform.Failed:       "C01", // it does not retry sending a result, which is level S
	} {
		for id := range strings.FieldsSeq(ids) {
			if r, ok := report.Result(id); !ok || r.Status != status {
				t.Errorf("%s: %s %s, want %s", id, r.Status, r.Reason, status)
			}
		}
	}
	if r, _ := report.Result("K04"); !strings.Contains(r.Reason, "/cancel_tool_call") {
		t.Errorf("K04 is not applicable because %s", r.Reason)
	}
}

// TestMinimalWrong checks that the cases still find the mistakes of a server with one
// tool.
func TestMinimalWrong(t *testing.T) {
	t.Parallel()
	other := map[string]conform.Role{"any": {Operation: "greet", Result: "^Good night"}}
	for _, test := range []struct {
		name, id string
		added    map[string]int
		roles    map[string]conform.Role
		status   conform.Status
		note     string
	}{
		{"another result", "C08", nil, other, conform.Failed, ""},
		{"no role", "C08", nil, nil, conform.Inapplicable, ""},
		{"no role", "A02", nil, nil, conform.Passed, ""},
		{"one notification", "K04", map[string]int{"/close_thread": 200}, greets, conform.Failed, ""},
		{"the other notification", "X04", map[string]int{"/cancel_tool_call": 200}, greets, conform.Failed, ""},
		{"both forbidden", "K04", map[string]int{"/cancel_tool_call": 405, "/close_thread": 405}, greets, conform.Inapplicable, ""},
		{"both broken", "K04", map[string]int{"/cancel_tool_call": 500, "/close_thread": 500}, greets, conform.Failed, ""},
		{"a body", "W06", map[string]int{"/cancel_tool_call": 200, "/close_thread": 200}, greets, conform.Passed, "should be empty"},
	} {
		t.Run(test.name+" "+test.id, func(t *testing.T) {
			t.Parallel()
			r := (&minimal{added: test.added}).report(t, conform.Options{Run: test.id}, test.roles).Results[0]
			if r.Status != test.status || !strings.Contains(strings.Join(r.Notes, " "), test.note) {
				t.Errorf("%s: %s %s, notes %q; want %s, %q", r.ID, r.Status, r.Reason, r.Notes, test.status, test.note)
			}
		})
	}
}
