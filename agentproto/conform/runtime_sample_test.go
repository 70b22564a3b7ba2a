package conform

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// wrongEnv makes the test binary act as a sample runtime and names its mistake.
const wrongEnv = "CONFORM_SAMPLE_RUNTIME"

// TestActAsSample is not a test: it is the process of the sample runtime.
func TestActAsSample(t *testing.T) {
	wrong, ok := os.LookupEnv(wrongEnv)
	if !ok {
		return
	}
	text, err := os.ReadFile(flag.Arg(0))
	if err != nil {
		t.Fatal(err)
	}
	s := &sample{wrong: wrong, threads: map[string]*sampleThread{}, calls: map[string]*sampleCall{}, tools: map[string]sampleTool{}}
	if err := json.Unmarshal(text, &s.config); err != nil {
		t.Fatal(err)
	}
	s.http = &http.Client{Timeout: 2 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error {
		if s.wrong == "follows redirects" {
			return nil
		}
		return http.ErrUseLastResponse
	}}
	callbacks, err := net.Listen("tcp", s.config.CallbackListen)
	if err != nil {
		t.Fatal(err)
	}
	go http.Serve(callbacks, http.HandlerFunc(s.callback))
	control, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(jsonOf(Hello{Control: "http://" + control.Addr().String(), Lacks: []string{
		PartState, PartChildren, PartText, PartImages, PartDisplay, PartNotices, PartViews, PartWebhookID, PartAlive,
		PartMigrate, PartStats, PartLimits, PartLifetime, PartClock,
	}}))
	t.Fatal(http.Serve(control, s.control())) // until it is killed
}

// A sample is a small runtime that satisfies the cases of TestMutants, except for its
// mistake. It works in memory and implements neither schemas nor timers.
type sample struct {
	wrong  string
	config RuntimeConfig
	http   *http.Client

	mu      sync.Mutex
	threads map[string]*sampleThread
	calls   map[string]*sampleCall // by their secret
	tools   map[string]sampleTool
}

type sampleTool struct{ name, base, endpoint string }

type sampleThread struct {
	Thread
	calls []*sampleCall
}

type sampleCall struct {
	secret, thread, id string
	tool               sampleTool
	resolved, open     bool // open: the call has a subscription
	choice             *agentproto.UserChoice
}

func (s *sample) control() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, do func(r *http.Request) any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			out := do(r)
			if out == nil {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			fmt.Fprintln(w, jsonOf(out))
		})
	}
	handle("POST /sessions", func(r *http.Request) any {
		var in SessionRequest
		json.NewDecoder(r.Body).Decode(&in)
		if s.threads[in.ID] == nil {
			s.threads[in.ID] = &sampleThread{Thread: Thread{ID: in.ID}}
		}
		return s.discover()
	})
	handle("GET /threads/{id}", func(r *http.Request) any {
		if h := s.threads[r.PathValue("id")]; h != nil {
			return h.Thread
		}
		return nil
	})
	handle("POST /threads/{id}/calls", func(r *http.Request) any {
		var in Turn
		json.NewDecoder(r.Body).Decode(&in)
		h := s.threads[r.PathValue("id")]
		h.History = append(h.History, Message{Role: RoleUser, Text: "go on"}, Message{Role: RoleModel, Calls: in.Calls})
		for _, c := range in.Calls {
			s.call(h, c)
		}
		return in
	})
	handle("POST /threads/{id}/interrupt", func(r *http.Request) any {
		h := s.threads[r.PathValue("id")]
		for _, c := range h.calls {
			if !c.resolved {
				s.resolve(c, "Error: interrupted by the user")
				s.broadcast("/cancel_tool_call", fields{"thread_id": c.thread, "tool_call_id": c.id})
			}
		}
		return h
	})
	handle("DELETE /threads/{id}", func(r *http.Request) any {
		h := s.threads[r.PathValue("id")]
		h.Closed, h.Calls, h.Prompts = true, nil, nil
		if s.wrong == "closes silently" {
			return h
		}
		s.broadcast("/close_thread", fields{"thread_id": h.ID})
		return h
	})
	handle("POST /threads/{id}/answers", func(r *http.Request) any {
		var in Answer
		json.NewDecoder(r.Body).Decode(&in)
		h := s.threads[r.PathValue("id")]
		for _, c := range h.calls {
			if c.choice == nil || in.Prompt != "ask "+c.id || len(h.promptsOf(c.id)) == 0 && s.wrong != "answers twice" {
				continue
			}
			selected := c.choice.Default
			if in.Selected != nil {
				selected = *in.Selected
			} else if s.wrong == "takes dismissal for no" {
				selected = 0
			}
			s.withdraw(c)
			go s.post(c.choice.ResponseURL, fields{"id": c.id, "selected": selected})
		}
		return h
	})
	return mux
}

// discover fetches the manifest of every server and returns the tools on offer.
func (s *sample) discover() Session {
	out := Session{Tools: []string{}, Problems: []ToolsetProblem{}}
	s.tools = map[string]sampleTool{}
	twice := map[string]bool{}
	for _, set := range s.config.Toolsets {
		m, err := s.manifest(set.URL)
		if err != nil {
			out.Problems = append(out.Problems, ToolsetProblem{Toolset: set.URL, Error: err.Error()})
			continue
		}
		for _, tool := range m.Tools {
			if _, ok := s.tools[tool.Name]; ok && s.wrong != "offers a name of two servers" {
				twice[tool.Name] = true
			}
			s.tools[tool.Name] = sampleTool{tool.Name, set.URL, m.Endpoint}
		}
	}
	for name := range twice {
		out.Problems = append(out.Problems, ToolsetProblem{Toolset: s.tools[name].base, Tool: name, Error: "two servers have it"})
		delete(s.tools, name)
	}
	for name := range s.tools {
		out.Tools = append(out.Tools, name)
	}
	return out
}

func (s *sample) manifest(base string) (*agentproto.Manifest, error) {
	resp, err := s.http.Get(base + "/.well-known/rap-toolset")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	m, err := agentproto.DecodeManifest(data, agentproto.Limits{})
	if err != nil {
		return nil, err
	}
	for _, tool := range m.Tools {
		if _, err := agentproto.CompileSchema(tool.InputSchema); err != nil {
			return nil, err
		}
	}
	if !s.allowed(base, m.Endpoint) && s.wrong != "uses other origins" {
		return nil, fmt.Errorf("%s is elsewhere", m.Endpoint)
	}
	return m, nil
}

// allowed reports whether the origin of a URL is the server's own or a configured one.
func (s *sample) allowed(base, raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && u.User == nil && (u.Scheme+"://"+u.Host == base || slices.Contains(s.config.AllowOrigins, u.Scheme+"://"+u.Host))
}

// call starts a call of the model.
func (s *sample) call(h *sampleThread, in TurnCall) {
	c := &sampleCall{secret: rand.Text(), thread: h.ID, id: in.ID}
	h.calls = append(h.calls, c)
	s.calls[c.secret] = c
	h.Calls = append(h.Calls, PendingCall{ID: in.ID, Operation: in.Operation, State: "waiting"})
	if in.Operation == cancelTool {
		s.unsubscribe(h, c, in)
		return
	}
	tool, ok := s.tools[in.Operation]
	if !ok && s.wrong == "sends unknown tools" {
		tool = s.tools["echo"]
	} else if !ok {
		s.resolve(c, "Error: there is no such tool")
		return
	}
	c.tool = tool
	m := fields{"operation": in.Operation, "arguments": in.Arguments, "id": in.ID, "group_id": h.ID,
		"callback_url": "http://" + s.config.CallbackListen + "/cb/" + c.secret}
	if in.CallID != "" && s.wrong != "drops the call_id" {
		m["call_id"] = in.CallID
	}
	go s.dispatch(c, m)
}

func (s *sample) unsubscribe(h *sampleThread, c *sampleCall, in TurnCall) {
	args, _ := in.Arguments.(map[string]any)
	for _, x := range h.calls {
		if x.open && args["tool_call_id"] == x.id {
			s.end(x)
			s.broadcast("/cancel_tool_call", fields{"thread_id": x.thread, "tool_call_id": x.id})
			s.resolve(c, "done")
			return
		}
	}
	s.resolve(c, "Error: there is no such subscription")
}

// dispatch posts an invocation until it is accepted or refused.
func (s *sample) dispatch(c *sampleCall, m map[string]any) {
	for i := range 1 + len(s.config.TimeoutsMS.Retry) {
		if i > 0 {
			<-time.After(time.Duration(s.config.TimeoutsMS.Retry[i-1]) * time.Millisecond)
		}
		status := s.post(c.tool.endpoint, m)
		if status >= 200 && status < 300 || s.wrong == "takes every answer for yes" {
			return
		}
		if status > 0 && status < 500 && s.wrong != "sends again after 4xx" || s.wrong == "never sends again" {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resolve(c, "Error: the call was not accepted")
	s.broadcast("/cancel_tool_call", fields{"thread_id": c.thread, "tool_call_id": c.id})
}

func (s *sample) post(url string, m any) int {
	resp, err := s.http.Post(url, "application/json", bytes.NewReader([]byte(jsonOf(m))))
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

func (s *sample) broadcast(path string, m any) {
	for i, set := range s.config.Toolsets {
		if i == 0 || s.wrong != "tells one server" {
			go func() {
				if status := s.post(set.URL+path, m); status >= 500 && s.wrong == "repeats notifications" {
					s.post(set.URL+path, m)
				}
			}()
		}
	}
}

// resolve adds a result to the history and removes the call from the pending ones.
func (s *sample) resolve(c *sampleCall, text string) {
	h := s.threads[c.thread]
	if c.resolved && s.wrong != "shows every result" {
		return
	}
	c.resolved = true
	h.Calls = slices.DeleteFunc(h.Calls, func(x PendingCall) bool { return x.ID == c.id })
	s.withdraw(c)
	h.History = append(h.History, Message{Role: RoleResult, ID: c.id, Content: []Content{{Type: "text", Text: text}}})
}

func (s *sample) withdraw(c *sampleCall) {
	h := s.threads[c.thread]
	h.Prompts = slices.DeleteFunc(h.Prompts, func(p Prompt) bool { return p.Call == c.id && s.wrong != "leaves prompts open" })
}

func (s *sample) end(c *sampleCall) {
	c.open = false
	h := s.threads[c.thread]
	h.Subscriptions = slices.DeleteFunc(h.Subscriptions, func(x Subscription) bool { return x.Call == c.id })
}

// sampleCommand returns the command that starts the sample runtime.
func sampleCommand(t *testing.T, wrong string) RuntimeCommand {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return RuntimeCommand{Args: []string{self, "-test.run=^TestActAsSample$"}, Env: []string{wrongEnv + "=" + wrong}}
}
