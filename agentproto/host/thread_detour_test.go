package host

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
)

func oauthBody(key agentproto.CallKey) string {
	return fmt.Sprintf(`{"type":"oauth","group_id":%q,"id":%q,"auth_url":"https://login.example/x"}`, key.GroupID, key.ID)
}

func subscriptionBody(key agentproto.CallKey) string {
	return fmt.Sprintf(`{"type":"tool_result","group_id":%q,"id":%q,"text":"watching","subscription":true}`, key.GroupID, key.ID)
}

func eventBody(key agentproto.CallKey, text string, associative, final bool) string {
	return fmt.Sprintf(`{"type":"subscription_event","group_id":%q,"tool_call_id":%q,"text":%q,"associative":%v,"final":%v}`,
		key.GroupID, key.ID, text, associative, final)
}

// TestConversationAuthorization checks that when all pending calls wait for an
// authorization, the model is informed and continues, and the result follows later (O01).
// It also checks the end if nobody authorizes (O06).
func TestConversationAuthorization(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		th := w.converse(conversation.Script{
			callsOf("a", "b", "c"), {Text: "please authorize"}, {Text: "sure"}, {Text: "got it"}, {Text: "no luck"},
		}, tool.base)
		w.say(th, "go")
		w.post(tool.callbackOf(key("a")), oauthBody(key("a")))
		w.post(tool.callbackOf(key("c")), oauthBody(key("c")))
		if h := w.history(th); strings.Contains(h, "Authorization") {
			t.Errorf("the model is told before b is settled:\n%s", h)
		}
		w.post(tool.callbackOf(key("b")), result(key("b"), "result b"))
		w.say(th, "still there?")
		w.post(tool.callbackOf(key("a")), result(key("a"), "result a"))
		w.wantHistory(th, `
			user: go
			assistant: a=echo({}) b=echo({}) c=echo({})
			result a: Authorization in progress: the user was asked to authorize this tool first. The result follows as soon as it is there.
			result b: result b
			result c: Authorization in progress: the user was asked to authorize this tool first. The result follows as soon as it is there.
			assistant: please authorize
			user: still there?
			assistant: sure
			assistant: event-9=incoming_event({"kind":"result","tool_call_id":"a","tool":"echo","arguments":{}})
			result event-9: result a
			assistant: got it
`)
		if n := len(tool.noticed()); n != 0 {
			t.Errorf("the user's text cancelled %d calls that wait for an authorization", n)
		}
		w.pass(11 * time.Minute)
		if h := w.history(th); !strings.HasSuffix(h, "Error: the user did not authorize the tool in time\nassistant: no luck\n") {
			t.Errorf("history:\n%s", h)
		}
	})
}

// TestConversationSubscription checks that events come inline, in order, after the pending
// calls. A final event is the last one, and a cancelled subscription delivers none (S01 to
// S07).
func TestConversationSubscription(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		cancel := func(id, which string) conversation.Reply {
			return conversation.Reply{Calls: []conversation.Call{{ID: id, Name: conversation.CancelTool, Arguments: `{"tool_call_id":"` + which + `"}`}}}
		}
		th := w.converse(conversation.Script{
			callsOf("a", "b"), {Text: "watching"}, {Text: "saw one"}, callsOf("c"), {Text: "saw both"},
			cancel("d", "b"), cancel("e", "b"), {Text: "stopped"},
		}, tool.base)
		w.say(th, "go")
		for _, id := range []string{"a", "b"} {
			w.post(tool.callbackOf(key(id)), subscriptionBody(key(id)))
		}
		w.post(tool.callbackOf(key("a")), eventBody(key("a"), "one", true, false))
		w.say(th, "more")
		w.post(tool.callbackOf(key("a")), eventBody(key("a"), "two", true, false))
		w.post(tool.callbackOf(key("b")), eventBody(key("b"), "three", true, false))
		w.post(tool.callbackOf(key("a")), eventBody(key("a"), "four", true, true))
		w.post(tool.callbackOf(key("a")), eventBody(key("a"), "after the last", true, false))
		w.post(tool.callbackOf(key("c")), result(key("c"), "result c"))
		w.say(th, "stop")
		w.post(tool.callbackOf(key("b")), eventBody(key("b"), "after the end", true, false))
		w.wantHistory(th, `
			user: go
			assistant: a=echo({}) b=echo({})
			result a: watching
			result b: watching
			assistant: watching
			assistant: event-6=incoming_event({"kind":"event","tool_call_id":"a","tool":"echo","arguments":{}})
			result event-6: one
			assistant: saw one
			user: more
			assistant: c=echo({})
			result c: result c
			assistant: event-12=incoming_event({"kind":"event","tool_call_id":"a","tool":"echo","arguments":{}})
			result event-12: two
			assistant: event-14=incoming_event({"kind":"event","tool_call_id":"b","tool":"echo","arguments":{}})
			result event-14: three
			assistant: event-16=incoming_event({"kind":"event","tool_call_id":"a","tool":"echo","arguments":{},"final":true})
			result event-16: four
			assistant: saw both
			user: stop
			assistant: d=cancel_subscription({"tool_call_id":"b"})
			result d: The subscription is cancelled.
			assistant: e=cancel_subscription({"tool_call_id":"b"})
			result e: Error: this thread has no subscription with the tool_call_id "b"
			assistant: stopped
`)
		if got := tool.noticed(); len(got) != 1 || !strings.Contains(got[0], "/cancel_tool_call") {
			t.Errorf("notices: %q", got)
		}
		if st, err := th.Status(t.Context()); err != nil || len(st.Subscriptions) != 0 {
			t.Errorf("status %+v, %v", st, err)
		}
	})
}

// TestConversationChildEvents checks that events that do not belong in the thread get their
// own child thread, in order, which is closed with its parent (S02).
func TestConversationChildEvents(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		model := conversation.ModelFunc(func(_ context.Context, r *conversation.Request) (*conversation.Reply, error) {
			if last := r.Messages[len(r.Messages)-1]; last.Text == "go" {
				reply := callsOf("a")
				return &reply, nil
			}
			return &conversation.Reply{Text: fmt.Sprintf("%d", len(r.Messages))}, nil
		})
		th := w.converse(model, tool.base)
		w.say(th, "go")
		w.post(tool.callbackOf(key("a")), subscriptionBody(key("a")))
		before := w.history(th)
		for _, text := range []string{"one", "two", "three"} {
			w.post(tool.callbackOf(key("a")), eventBody(key("a"), text, false, text == "three"))
		}
		if after := w.history(th); after != before {
			t.Errorf("the thread itself has the events:\n%s", after)
		}
		child := w.rt.Thread(conversation.ChildOf("s", "a"))
		got := w.history(child)
		one, two, three := strings.Index(got, ": one\n"), strings.Index(got, ": two\n"), strings.Index(got, ": three\n")
		if one < 0 || two < one || three < two || strings.Contains(got, "user") {
			t.Errorf("history of the child:\n%s", got)
		}
		if st, err := child.Status(t.Context()); err != nil || fmt.Sprint(st.Session.Ancestors) != "[s]" || st.Session.UserID != "ada" {
			t.Errorf("the child: %+v, %v", st.Session, err)
		}
		if err := th.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h := w.history(child); !strings.HasSuffix(h, "closed\n") {
			t.Errorf("the child is open:\n%s", h)
		}
	})
}

// TestConversationViewsAndPrompts checks that views are kept for later readers and are not
// messages, and likewise prompts while they are open (V01, V03, U07, U08).
func TestConversationViewsAndPrompts(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		th := w.converse(conversation.Script{callsOf("a"), {Text: "never mind"}}, tool.base)
		w.say(th, "go")
		for _, content := range []string{`{"n":1}`, `{"n":2}`} {
			w.post(tool.callbackOf(key("a")), `{"type":"view_update","group_id":"s","view_type":"v","content":`+content+`}`)
		}
		w.post(tool.callbackOf(key("a")), `{"type":"user_choice","group_id":"s","id":"a","prompt":"which?","choices":["x","y"],"default":0,"response_url":"`+tool.base+`/answer"}`)
		if views, err := th.Views(t.Context()); err != nil || len(views) != 1 || string(views["v"]) != `{"n":2}` {
			t.Errorf("views %s, %v", views, err)
		}
		synctest.Wait()
		if open := th.Prompts(); len(open) != 1 || open[0].Prompt != "which?" {
			t.Errorf("prompts %+v", open)
		}
		if n := w.stats().Prompts; n != 1 {
			t.Errorf("%d prompts are counted", n)
		}
		w.say(th, "stop")
		if open := th.Prompts(); len(open) != 0 || w.stats().Prompts != 0 {
			t.Errorf("prompts %+v", open)
		}
		w.wantHistory(th, `
			user: go
			assistant: a=echo({})
			result a: Tool call interrupted by user
			user: stop
			assistant: never mind
`)
	})
}

// TestConversationImages checks that images are shown to a model that accepts them and
// described to others. An unusable image is always described (R02 to R04, R14).
func TestConversationImages(t *testing.T) {
	const content = `{"type":"tool_result","group_id":"s","id":"a","text":"loses","content":[{"type":"text","text":"before"},
		{"type":"image","data":"iVBORw==","mediaType":"image/png"},{"type":"image","data":"!","mediaType":"image/png"},{"type":"text","text":"after"}]}`
	for _, images := range []bool{false, true} {
		inWorld(t, func(t *testing.T, w *world) {
			tool := w.tool("tool.test")
			tool.ack = func(_ int, _ http.ResponseWriter, inv *agentproto.Invocation) { w.postLater(inv.CallbackURL, content) }
			w.opts.Model = conversation.Script{callsOf("a"), {Text: "done"}}
			w.start(tool.base)
			th, err := w.rt.OpenSession(t.Context(), SessionRequest{ID: "s", Images: images})
			if err != nil {
				t.Fatal(err)
			}
			w.say(th, "go")
			w.wantHistory(th, `
			user: go
			assistant: a=echo({})
			result a: before
			[image: image/png, 4 bytes]
			[image: unusable]
			after
			assistant: done
`)
			messages, _ := th.History(t.Context())
			if got := messages[3].Result.Content[1].Type == agentproto.KindImage; got != images {
				t.Errorf("images %v: the model is shown %v", images, messages[3].Result.Content)
			}
		})
	}
}
