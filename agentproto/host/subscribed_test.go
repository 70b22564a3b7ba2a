package host

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
)

func subscribe(key agentproto.CallKey) string {
	return fmt.Sprintf(`{"type":"tool_result","group_id":%q,"id":%q,"text":"subscribed","subscription":true}`, key.GroupID, key.ID)
}

func event(key agentproto.CallKey, text string, final bool) string {
	return fmt.Sprintf(`{"type":"subscription_event","group_id":%q,"tool_call_id":%q,"text":%q,"final":%v}`, key.GroupID, key.ID, text, final)
}

// withEvents records the events that the program receives.
func withEvents(delivered *[]string) func(delivering) delivering {
	return func(deliver delivering) delivering {
		return func(ctx context.Context, key agentproto.CallKey, e agentproto.Event) error {
			if e.Kind == agentproto.SubscriptionEventArrived {
				*delivered = append(*delivered, e.Subscription.Text+" "+e.MessageID)
			}
			return deliver(ctx, key, e)
		}
	}
}

// TestS04GoneAfterTheEnd checks that a tool that keeps sending events of an ended subscription gets 410 after a minute
// (S04). A call whose subscription never opened does not. The test fails if such a tool sends events forever, or if an
// event that was already on its way is refused.
func TestS04GoneAfterTheEnd(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, key, url := w.pending()
		w.post(url, subscribe(key))
		w.post(url, event(key, "one", false))
		synctest.Wait()
		time.Sleep(time.Hour)
		if status := w.post(url, event(key, "two", false)); status != 200 {
			t.Errorf("while it is open: status %d", status)
		}
		w.post(url, event(key, "last", true))
		synctest.Wait()
		for _, x := range []struct {
			after  time.Duration
			status int
		}{{0, 200}, {time.Minute, 200}, {time.Second, 410}, {time.Hour, 410}} {
			time.Sleep(x.after)
			if status := w.post(url, event(key, "again", false)); status != x.status {
				t.Errorf("%v later: status %d, want %d", x.after, status, x.status)
			}
		}
		w.call("g", "2") // whose result opens no subscription
		plain := agentproto.CallKey{GroupID: "g", ID: "2"}
		other := tool.callback()
		w.post(other, result(plain, "done"))
		synctest.Wait()
		time.Sleep(time.Hour)
		if status := w.post(other, event(plain, "none", false)); status != 200 {
			t.Errorf("without a subscription: status %d, want 200", status)
		}
	})
}

// TestS04EventsAtTheEndpoint checks that the URL of a call with a subscription stays valid for events and views (S04,
// S09). Other messages then have no effect. Events have none before or after the subscription.
func TestS04EventsAtTheEndpoint(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var delivered []string
		w.deliver = withEvents(&delivered)
		tool, key, url := w.pending()
		post := func(body, id string) {
			t.Helper()
			status, _ := w.send("POST", url, strings.NewReader(body), "Content-Type", "application/json", "webhook-id", id)
			if status != 200 {
				t.Errorf("%s: status %d, want 200", body, status)
			}
			synctest.Wait()
		}
		post(event(key, "too early", false), "")
		post(subscribe(key), "")
		post(event(key, "a", false), "id1")
		post(event(key, "a", false), "id1")
		post(event(key, "b", false), "")
		post(event(key, "b", false), "")
		post(oauth("https://login.test/"), "")
		post(choice(`["a"]`, 0, answerURL), "")
		post(view("g", "v", `{"a":1}`), "")
		post(result(key, "another"), "")
		post(event(key, "last", true), "")
		post(event(key, "after the last", false), "")
		if got, want := strings.Join(delivered, ", "), "too early , a id1, a id1, b , b , last , after the last "; got != want {
			t.Errorf("the program was told of %q, want %q", got, want)
		}
		if got := w.user.saw(); len(got) != 1 || !strings.HasPrefix(got[0], "view ") {
			t.Errorf("saw %q, want the view alone", got)
		}
		st := w.stats()
		if st.Events != 7 || st.Unsubscribed != 2 || st.Late != 2 || st.Duplicates != 2 || st.Results != 1 || st.Views != 1 {
			t.Errorf("stats %+v, want 7 events, 2 of them without a subscription, 2 late, 2 duplicates, a view", st.Counts)
		}
		plain := w.call("g", "2")
		url = tool.callback()
		post(result(plain, "ok"), "")
		post(event(plain, "of a plain call", false), "")
		if st := w.stats(); st.Unsubscribed != 3 {
			t.Errorf("stats %+v, want another event without a subscription", st.Counts)
		}
	})
}

// TestS12SubscriptionsAreBounded checks that, at the bound, a call that would open another subscription is cancelled and
// resolved with an error. A subscription that ends makes room (S12).
func TestS12SubscriptionsAreBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.Bounds.Subscriptions = 3
		tool := w.tool("tool.test")
		w.start(tool.base)
		open := func(thread, id string) (agentproto.CallKey, string) {
			key := w.call(thread, id)
			url := tool.callback()
			for range 2 { // a retry takes no additional room
				if status := w.post(url, subscribe(key)); status != 200 {
					t.Errorf("%v: status %d", key, status)
				}
			}
			return key, w.text(key)
		}
		var keys []agentproto.CallKey
		for i := range 3 {
			key, got := open("g", fmt.Sprint(i))
			if keys = append(keys, key); got != "subscribed" {
				t.Errorf("subscription %d: %q", i, got)
			}
		}
		fourth, got := open("g", "3")
		if want := "Error: the thread has 3 open subscriptions already; cancel one of them first"; got != want {
			t.Errorf("the fourth: %q, want %q", got, want)
		}
		if got, want := strings.Join(tool.noticed(), "\n"), `/cancel_tool_call {"thread_id":"g","tool_call_id":"3"}`; got != want {
			t.Errorf("notices %s, want %s", got, want)
		}
		if status := w.post(tool.callbackOf(fourth), event(fourth, "x", false)); status != 200 || w.stats().Unsubscribed != 1 {
			t.Errorf("an event of the fourth: status %d, stats %+v", status, w.stats().Counts)
		}
		if _, got := open("h", "0"); got != "subscribed" {
			t.Errorf("another thread: %q", got)
		}
		w.post(tool.callbackOf(keys[0]), event(keys[0], "last", true))
		synctest.Wait()
		if _, got := open("g", "4"); got != "subscribed" {
			t.Errorf("after one has ended: %q", got)
		}
		if _, got := open("g", "5"); !strings.HasPrefix(got, "Error: ") {
			t.Errorf("after that: %q", got)
		}
		if err := w.rt.CloseThread(t.Context(), "g"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := w.rt.subscribed.Threads(); n != 1 {
			t.Errorf("subscriptions of %d threads are known, want those of h", n)
		}
	})
}

// TestS12LateResult checks that a dropped result takes no room.
func TestS12LateResult(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, key, url := w.pending()
		w.rt.Cancel(t.Context(), key)
		w.text(key)
		w.post(url, subscribe(key))
		synctest.Wait()
		if n := w.rt.subscribed.Threads(); n != 0 {
			t.Errorf("%d threads are kept", n)
		}
	})
}
