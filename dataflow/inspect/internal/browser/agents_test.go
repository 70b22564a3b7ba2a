package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/agentinspect"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/dataflow/inspect"
)

// hostile is a text that would become an element of the page without escaping.
const hostile = `<script>document.title = "taken over"</script><img src=x onerror=alert(1)></pre>`

// An asking is a tool server with one tool, which asks the user to choose and returns the choice.
type asking struct {
	t   *testing.T
	url string

	mu      sync.Mutex
	calls   map[string]*agentproto.Invocation
	answers []string
}

func (a *asking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, _ := io.ReadAll(r.Body)
	switch r.URL.Path {
	case "/.well-known/rap-toolset":
		fmt.Fprintf(w, `{"name":"asking","endpoint":"%s/invoke","tools":[{"name":"ask","description":"Asks.","inputSchema":{"type":"object"}}]}`, a.url)
	case "/invoke":
		call, err := agentproto.DecodeInvocation(data, agentproto.Limits{})
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.mu.Lock()
		a.calls[call.ID] = call
		a.mu.Unlock()
		go a.post(call.CallbackURL, &agentproto.UserChoice{
			GroupID: call.GroupID, ID: call.ID, Prompt: "Which colour? " + hostile, Choices: []string{"red", "blue " + hostile}, ResponseURL: a.url + "/choice",
		})
	case "/choice":
		var answer agentproto.ChoiceResponse
		if err := json.Unmarshal(data, &answer); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.mu.Lock()
		a.answers = append(a.answers, string(data))
		call := a.calls[answer.ID]
		a.mu.Unlock()
		text := fmt.Sprint("number ", answer.Selected, " ", hostile)
		go a.post(call.CallbackURL, &agentproto.ToolResult{GroupID: call.GroupID, ID: call.ID, Text: &text})
	}
}

func (a *asking) post(url string, message any) {
	body, err := agentproto.Encode(message)
	if err != nil {
		a.t.Error(err)
		return
	}
	resp, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		a.t.Error(err)
		return
	}
	resp.Body.Close()
}

// A blind surface shows nothing, because the pages do.
type blind struct{}

func (blind) OAuth(context.Context, agentproto.CallKey, *agentproto.OAuth)       {}
func (blind) Choice(context.Context, agentproto.CallKey, *agentproto.UserChoice) {}
func (blind) Withdraw(agentproto.CallKey, string)                                {}
func (blind) Progress(agentproto.CallKey, agentproto.State)                      {}
func (blind) View(agentproto.CallKey, *agentproto.ViewUpdate)                    {}

// startAgents starts a runtime whose model calls the tool when the user says something, and then reports the result.
func startAgents(t *testing.T) (*host.Runtime, *asking) {
	tool := &asking{t: t, calls: make(map[string]*agentproto.Invocation)}
	s := httptest.NewServer(tool)
	t.Cleanup(s.Close)
	tool.url = s.URL
	rt, err := host.Start(t.Context(), host.Options{
		Toolsets: []string{s.URL}, Surface: blind{},
		Model: conversation.ModelFunc(func(_ context.Context, r *conversation.Request) (*conversation.Reply, error) {
			last := r.Messages[len(r.Messages)-1]
			if last.Kind == conversation.User {
				return &conversation.Reply{Text: "I ask. " + hostile, Calls: []conversation.Call{{ID: "c1", Name: "ask", Arguments: `{"a": "` + "<b>" + `"}`}}}, nil
			}
			return &conversation.Reply{Text: "It is " + last.Result.Text()}, nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		rt.Stop(ctx)
	})
	return rt, tool
}

// agentPages serves the pages of a runtime.
func agentPages(t *testing.T, rt *host.Runtime) string {
	return serve(t, rt.Flow(), inspect.Options{
		Name: "agents", Values: true, Sections: []inspect.Section{agentinspect.Section(rt, agentinspect.Options{Answers: true})},
	}).URL + "agents/"
}

// TestAgents opens a thread while it runs, answers the tool's question with the keyboard only, and waits for the
// result. Texts must not become elements, and the tool must receive the answer once.
func TestAgents(t *testing.T) {
	rt, tool := startAgents(t)
	th, err := rt.OpenSession(t.Context(), host.SessionRequest{ID: "s <1>", UserID: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	b := open(t)
	pages := agentPages(t, rt)
	b.visit(pages + "threads")
	b.click("tbody th a")
	b.is(`document.getElementById("stream")?.textContent === "live"`)
	if err := th.Say(t.Context(), "What colour? "+hostile); err != nil {
		t.Fatal(err)
	}
	b.is(`document.querySelectorAll("#transcript li.user, #transcript li.assistant").length === 2`)
	b.is(`document.querySelectorAll("#prompts form input[type=radio]").length === 2`)
	b.is(`document.getElementById("pending").textContent === "1"`)
	b.shoot("agents-asked")
	for range 40 { // from the top of the page to the choices
		if eval[bool](b, `document.activeElement.type === "radio"`) {
			break
		}
		b.do(chromedp.KeyEvent("\t"))
	}
	b.do(chromedp.KeyEvent(kb.ArrowDown)) // to the second choice
	b.is(`document.querySelectorAll("#prompts input[type=radio]")[1].checked`)
	b.do(chromedp.KeyEvent("\t"))
	b.do(chromedp.KeyEvent("\r"))
	b.is(`location.pathname.endsWith("/prompts") && document.querySelector("main [role=status]")?.textContent === "The answer was given."`)
	b.visit(pages + "thread?id=s+%3C1%3E")
	b.is(`[...document.querySelectorAll("#transcript li.assistant pre")].some(p => p.textContent.startsWith("It is number 1"))`)
	b.shoot("agents-answered")
	if n := eval[int](b, `document.querySelectorAll("main script, main img").length`); n != 0 || eval[string](b, "document.title") == "taken over" {
		t.Errorf("%d elements were made of texts, and the title is %q", n, eval[string](b, "document.title"))
	}
	b.click("#transcript p.call a")
	b.is(`document.querySelector("h2")?.textContent === "Call c1"`)
	if body := b.text("main"); !strings.Contains(body, "resolved") || !strings.Contains(body, "answered") || !strings.Contains(body, "number 1") {
		t.Errorf("the page of the call is %s", body)
	}
	b.shoot("agents-call")
	b.click(`a[href^="../keys"]`)
	b.is(`location.pathname.endsWith("/keys") && document.querySelectorAll("table")[0].rows.length > 1`)
	for _, width := range []int64{1280, 360} {
		b.do(chromedp.EmulateViewport(width, 800))
		for _, page := range []string{"", "threads", "calls", "thread?id=s+%3C1%3E", "prompts"} {
			b.visit(pages + page)
			if !eval[bool](b, "document.documentElement.scrollWidth <= innerWidth") {
				t.Errorf("%q has to be moved sideways where it is %d wide", page, width)
			}
		}
	}
	tool.mu.Lock()
	defer tool.mu.Unlock()
	if len(tool.answers) != 1 {
		t.Errorf("the tool has the answers %q", tool.answers)
	}
	b.noProblems()
}

// TestTranscriptCutOff breaks the connection of a transcript and checks that it continues after its last message.
func TestTranscriptCutOff(t *testing.T) {
	rt, _ := startAgents(t)
	th, err := rt.OpenSession(t.Context(), host.SessionRequest{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	h := inspect.Handler(rt.Flow(), inspect.Options{Values: true, Sections: []inspect.Section{agentinspect.Section(rt, agentinspect.Options{})}})
	s := httptestServer(t, h)
	b := open(t)
	b.visit(s.URL + "/agents/thread?id=s")
	b.is(`document.getElementById("stream").textContent === "live"`)
	for i := range 3 {
		s.CloseClientConnections()
		if err := th.Say(t.Context(), fmt.Sprint("said ", i)); err != nil {
			t.Fatal(err)
		}
		b.is(fmt.Sprintf(`[...document.querySelectorAll("#transcript li.user pre")].map(p => p.textContent).join() === %q`, []string{"said 0", "said 0,said 1", "said 0,said 1,said 2"}[i]))
	}
	if n := eval[int](b, `new Set([...document.querySelectorAll("#transcript .who")].map(w => w.textContent)).size - document.querySelectorAll("#transcript li").length`); n != 0 {
		t.Error("a message is there twice")
	}
	b.noProblems("Failed to load resource")
}
