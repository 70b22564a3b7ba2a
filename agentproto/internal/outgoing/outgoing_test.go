package outgoing

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/leak"
	"github.com/millrace/millrace/agentproto/internal/tools"
)

const canary = "canary-4711-canary"

// TestMake checks that a secret that a tool writes into its messages is removed before
// they leave.
func TestMake(t *testing.T) {
	guard, inv := new(leak.Guard), &agentproto.Invocation{GroupID: "g", ID: "c", Operation: "op"}
	guard.Add(canary)
	mk := NewMaker(guard, slog.New(slog.DiscardHandler))
	text := "the token is " + canary
	for _, c := range []struct {
		msg  agentproto.Callback
		want string
	}{
		{&agentproto.ToolResult{GroupID: "g", ID: "c", Text: &text}, textWithheld},
		{&agentproto.SubscriptionEvent{GroupID: "g", ToolCallID: "c", Text: text}, leak.Withheld},
		{&agentproto.UserChoice{GroupID: "g", ID: "c", Prompt: "prompt", Choices: []string{"one", text}, ResponseURL: "https://tools.example/a"}, `"one"`},
		{&agentproto.ViewUpdate{GroupID: "g", ViewType: "v", Content: []byte(`{"a":["` + canary + `"],"b":1.50}`)}, "1.50"},
		{&agentproto.ToolResult{GroupID: "g", ID: "c", Content: []agentproto.Content{{Type: agentproto.KindText, Text: "fine"}, {Type: agentproto.KindText, Text: text}}}, "fine"},
	} {
		m, err := mk.Make(c.msg, inv)
		if err != nil {
			t.Fatal(err)
		}
		if body := string(m.Body); strings.Contains(body, canary) || !strings.Contains(body, c.want) || m.Kind != c.msg.Type() || m.ID == "" {
			t.Errorf("%s: %s", m.Kind, body)
		}
	}
	m, err := mk.Pack(&agentproto.ToolResult{GroupID: "g", ID: "c", Text: &text})
	if err != nil || !strings.Contains(string(m.Body), canary) {
		t.Errorf("Pack = %s, %v", m.Body, err)
	}
}

// answers is a transport that plays a runtime.
type answers func(r *http.Request) (*http.Response, error)

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

func TestSend(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		retry  string
		err    error
		sign   error
		class  tools.Class
		after  time.Duration
	}{
		"accepted":   {status: 204, class: tools.Accepted},
		"gone":       {status: 410, class: tools.Gone},
		"redirected": {status: 307, class: tools.Refused},
		"refused":    {status: 404, class: tools.Refused},
		"busy":       {status: 503, retry: "7", class: tools.Again, after: 7 * time.Second},
		"too many":   {status: 429, class: tools.Again},
		"broken":     {err: errors.New("broken"), class: tools.Again},
		"unsigned":   {sign: errors.New("no key"), class: tools.Refused},
	} {
		var log strings.Builder
		s := NewSender(Options{
			Timeout: time.Minute, Rules: tools.Rules{Pauses: []time.Duration{time.Second}, Most: time.Hour}, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Sign: func(h http.Header, runtime, id string, body []byte) error {
				h.Set("signature", runtime+" "+id+" "+string(body))
				return c.sign
			},
			Transport: answers(func(r *http.Request) (*http.Response, error) {
				if got := r.Header.Get("signature"); got != "rt id text" || r.URL.String() != "https://runtime.example/secret-path" {
					t.Errorf("%s: sent to %s with %q", name, r.URL, got)
				}
				if c.err != nil {
					return nil, c.err
				}
				return &http.Response{StatusCode: c.status, Header: http.Header{"Retry-After": {c.retry}}, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
			}),
		})
		o := s.Send(t.Context(), tools.Job{
			To: "https://runtime.example/secret-path", ID: "id", Call: tools.CallID{Runtime: "rt"}, Message: &tools.Message{Body: []byte("text")}, Left: 0,
		})
		if o.Class != c.class || o.After != c.after || o.Suspended {
			t.Errorf("%s: %+v", name, o)
		}
		if logged := log.String(); (logged == "") != (c.class == tools.Accepted) || strings.Contains(logged, "secret-path") || (c.class == tools.Again) != strings.Contains(logged, "in time") {
			t.Errorf("%s: logged %s", name, logged)
		}
	}
}
