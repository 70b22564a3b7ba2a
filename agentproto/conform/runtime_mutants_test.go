package conform

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// callback handles the messages that tools post.
func (s *sample) callback(w http.ResponseWriter, r *http.Request) {
	secret, ok := strings.CutPrefix(r.URL.Path, "/cb/")
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[secret]
	if !ok || c == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") && s.wrong != "takes any Content-Type":
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return
	}
	limit := int64(1 << 20)
	if s.wrong == "reads without a limit" {
		limit = 1 << 40
	}
	var data []byte
	var err error
	if r.ContentLength <= limit {
		data, err = io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	}
	if err != nil || r.ContentLength > limit {
		w.Header().Set("Connection", "close")
		s.resolve(c, "Error: the result was too large")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	if s.wrong == "reads JSON leniently" {
		data = lenient(data)
	}
	m, err := agentproto.DecodeCallback(data, agentproto.Limits{Bytes: limit})
	if s.wrong == "shows any address" && err != nil {
		if url := addressOf(data); url != "" {
			m, err = &agentproto.OAuth{GroupID: c.thread, ID: c.id, AuthURL: url}, nil
		}
	}
	if err != nil {
		if bad, ok := errors.AsType[*agentproto.MessageError](err); !ok || bad.Message != agentproto.TypeSubscriptionEvent {
			s.resolve(c, "Error: malformed message")
		}
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if m.Key() != (agentproto.CallKey{GroupID: c.thread, ID: c.id}) {
		if c = s.other(m.Key()); c == nil {
			w.WriteHeader(http.StatusForbidden)
			return
		}
	}
	s.take(c, m)
}

// lenient decodes as encoding/json does: the last of two equal members wins.
func lenient(data []byte) []byte {
	var v any
	if json.Unmarshal(data, &v) != nil {
		return data
	}
	return []byte(jsonOf(v))
}

func addressOf(data []byte) string {
	var m struct {
		Type    string `json:"type"`
		AuthURL string `json:"auth_url"`
	}
	if json.Unmarshal(data, &m) != nil || m.Type != agentproto.TypeOAuth {
		return ""
	}
	return m.AuthURL
}

// other finds the call that a message names when it arrives at another call's URL. A
// correct runtime looks up no such call.
func (s *sample) other(key agentproto.CallKey) *sampleCall {
	for _, c := range s.calls {
		if s.wrong == "believes the body" && c.thread == key.GroupID && c.id == key.ID || s.wrong == "looks for ids alone" && c.id == key.ID {
			return c
		}
	}
	return nil
}

// take handles a valid message. The answer is 200 whatever the message does.
func (s *sample) take(c *sampleCall, m agentproto.Callback) {
	h := s.threads[c.thread]
	if h.Closed && s.wrong != "hears closed threads" {
		return
	}
	ask := func(p Prompt) {
		if !c.resolved {
			p.ID, p.Call = "ask "+c.id, c.id
			s.withdraw(c)
			h.Prompts = append(h.Prompts, p)
		}
	}
	switch m := m.(type) {
	case *agentproto.ToolResult:
		text := ""
		if m.Text != nil {
			text = *m.Text
		}
		if m.Content != nil && s.wrong != "prefers text" {
			text = m.Content[0].String()
		}
		if m.Subscription && !c.resolved {
			c.open = true
			h.Subscriptions = append(h.Subscriptions, Subscription{Call: c.id})
		}
		s.resolve(c, text)
	case *agentproto.OAuth:
		ask(Prompt{Kind: "oauth", AuthURL: m.AuthURL})
	case *agentproto.UserChoice:
		if !s.allowed(c.tool.base, m.ResponseURL) && s.wrong != "uses other origins" {
			s.resolve(c, "Error: the response_url is elsewhere")
			return
		}
		c.choice = m
		ask(Prompt{Kind: "choice", Text: m.Prompt, Choices: m.Choices, Default: m.Default})
	case *agentproto.SubscriptionEvent:
		if !c.open && s.wrong != "shows every event" {
			return
		}
		h.History = append(h.History, Message{Role: RoleEvent, ID: c.id, Text: m.Text, Final: m.Final})
		if m.Final && s.wrong != "goes on after the end" {
			s.end(c)
		}
	}
}

// mutants maps each mistake of the sample runtime to the cases that catch it.
var mutants = map[string][]string{
	"shows every result":           {"R06", "R07", "R08"},
	"believes the body":            {"Z01", "Z03"},
	"looks for ids alone":          {"R10", "R09"},
	"sends again after 4xx":        {"I05"},
	"never sends again":            {"I06"},
	"follows redirects":            {"I10"},
	"sends unknown tools":          {"I03"},
	"offers a name of two servers": {"D05"},
	"uses other origins":           {"D13", "U05"},
	"shows any address":            {"O02"},
	"answers twice":                {"U06"},
	"leaves prompts open":          {"O05"},
	"shows every event":            {"S04"},
	"reads JSON leniently":         {"W01"},
	"tells one server":             {"K01"},
	"prefers text":                 {"R04"},
	"hears closed threads":         {"X03"},
	"takes any Content-Type":       {"W07"},
	"reads without a limit":        {"R15", "W08"},
	"goes on after the end":        {"S03"},
	"takes dismissal for no":       {"U02"},
	"drops the call_id":            {"I01"},
	"repeats notifications":        {"K03"},
	"closes silently":              {"X01"},
	"takes every answer for yes":   {"I05", "I10"},
}

// TestMutants checks that each mistake of the sample runtime is found by its cases, and
// that those cases pass on a sample without mistakes.
func TestMutants(t *testing.T) {
	t.Parallel()
	var all []string
	for _, cases := range mutants {
		all = append(all, cases...)
	}
	judge := func(t *testing.T, wrong string, cases []string, want Status) {
		opts := Options{Run: strings.Join(cases, "|"), Parallel: 4}
		if want == Failed {
			opts.Timeout = 4 * time.Second // some cases wait for all of it
		}
		report, err := RunRuntime(t.Context(), sampleCommand(t, wrong), opts)
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Results) != len(cases) {
			t.Errorf("%d cases were run, not %d", len(report.Results), len(cases))
		}
		for _, r := range report.Results {
			if r.Status != want {
				t.Errorf("case %s: %s, not %s: %s", r.ID, r.Status, want, r.Reason)
			}
		}
	}
	slices.Sort(all)
	t.Run("none", func(t *testing.T) { judge(t, "", slices.Compact(all), Passed) })
	for wrong, cases := range mutants {
		t.Run(wrong, func(t *testing.T) {
			t.Parallel()
			judge(t, wrong, cases, Failed)
		})
	}
}
