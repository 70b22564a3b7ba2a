package host

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

func view(thread, kind, content string) string {
	return fmt.Sprintf(`{"type":"view_update","group_id":%q,"view_type":%q,"content":%s}`, thread, kind, content)
}

// views returns the latest views of a thread, as "type content".
func (w *world) views(thread string) string {
	synctest.Wait()
	var found []string
	for _, v := range w.rt.Views(thread) {
		found = append(found, v.ViewType+" "+string(v.Content))
	}
	return strings.Join(found, ", ")
}

// TestV01V03LatestViews checks that the last content of each view is kept for later readers, and that an
// empty one clears the view (V01, V03).
func TestV01V03LatestViews(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, _, url := w.pending()
		for _, body := range []string{
			view("g", "plan", `{"step":1}`), view("g", "files", `{"n":0}`), view("g", "plan", `{"step":2}`),
			view("g", "gone", `{"a":1}`), view("g", "gone", ` { } `), view("g", "never", `{}`),
		} {
			if status := w.post(url, body); status != 200 {
				t.Errorf("%s: status %d", body, status)
			}
		}
		if got, want := w.views("g"), `files {"n":0}, plan {"step":2}`; got != want {
			t.Errorf("views %s, want %s", got, want)
		}
		if got := len(w.user.saw()); got != 6 {
			t.Errorf("%d views were shown, want all 6", got)
		}
		if w.views("other") != "" {
			t.Error("another thread has views")
		}
	})
}

// TestV02ViewsRefused checks that a view of a thread other than the URL's, or one that is not an object,
// is refused (V02). A view of a closed thread or a resolved call is too late (X03).
func TestV02ViewsRefused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, key, url := w.pending()
		for _, tt := range []struct {
			body string
			want int
		}{
			{view("unknown", "plan", `{"a":1}`), 403},
			{view("g", "plan", `[1]`), 400},
			{view("g", "plan", `"text"`), 400},
			{view("g", "plan", `null`), 400},
			{view("g", "", `{"a":1}`), 400},
			{`{"type":"view_update","group_id":"g","view_type":"plan"}`, 400},
		} {
			if status := w.post(url, tt.body); status != tt.want {
				t.Errorf("%s: status %d, want %d", tt.body, status, tt.want)
			}
		}
		w.post(url, result(key, "ok"))
		w.text(key)
		synctest.Wait()
		if status := w.post(url, view("g", "plan", `{"a":1}`)); status != 200 {
			t.Errorf("after the result: status %d", status)
		}
		w.call("h", "1")
		closed := tool.callback()
		w.post(closed, view("h", "plan", `{"a":1}`))
		if got, want := w.views("h"), `plan {"a":1}`; got != want {
			t.Errorf("views %s, want %s", got, want)
		}
		if err := w.rt.CloseThread(t.Context(), "h"); err != nil {
			t.Fatal(err)
		}
		if status := w.post(closed, view("h", "plan", `{"a":2}`)); status != 200 {
			t.Errorf("after the closure: status %d", status)
		}
		if g, h := w.views("g"), w.views("h"); g != "" || h != "" {
			t.Errorf("views %s and %s, want none", g, h)
		}
		if st := w.stats(); st.Late != 2 || st.Views != 1 {
			t.Errorf("stats %+v, want 2 late and 1 view", st.Counts)
		}
	})
}

// TestV02ViewsOfSubscription checks that a call with an open subscription can show views after its result,
// as a tool that watches something does (V02).
func TestV02ViewsOfSubscription(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, key, url := w.pending()
		w.post(url, subscribe(key))
		synctest.Wait()
		if status := w.post(url, view("g", "plan", `{"step":1}`)); status != 200 {
			t.Errorf("while the subscription is open: status %d", status)
		}
		if got, want := w.views("g"), `plan {"step":1}`; got != want {
			t.Errorf("views %s, want %s", got, want)
		}
		w.post(url, event(key, "done", true))
		synctest.Wait()
		if status := w.post(url, view("g", "plan", `{"step":2}`)); status != 200 {
			t.Errorf("behind the final event: status %d", status)
		}
		if got, want := w.views("g"), `plan {"step":1}`; got != want {
			t.Errorf("views %s, want %s", got, want)
		}
		if st := w.stats(); st.Late != 1 || st.Views != 1 {
			t.Errorf("stats %+v, want 1 late and 1 view", st.Counts)
		}
	})
}

// TestV04ViewsAreBounded checks the limits on the number and size of a thread's views (V04).
func TestV04ViewsAreBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.Bounds.Rates = Rates{Call: Rate{Burst: 64 << 20}, Session: Rate{Burst: 64 << 20}}
		_, key, url := w.pending()
		statuses := map[int]int{}
		for i := range 200 {
			statuses[w.post(url, view("g", fmt.Sprint("v", i), `{"a":1}`))]++
		}
		if statuses[200] != 32 || statuses[413] != 168 {
			t.Errorf("200 views: %v, want 32 taken and 168 refused with 413", statuses)
		}
		large := `{"a":"` + strings.Repeat("x", 100<<10) + `"}`
		clear(statuses)
		for i := range 32 {
			statuses[w.post(url, view("g", fmt.Sprint("v", i), large))]++
		}
		if statuses[200] != 10 || statuses[413] != 22 {
			t.Errorf("32 views of 100 KiB: %v, want 10 taken", statuses)
		}
		for i := range 10 {
			if status := w.post(url, view("g", "v0", large)); status != 200 {
				t.Errorf("replacement %d: status %d", i, status)
			}
		}
		if w.post(url, view("g", "v1", `{}`)) != 200 || w.post(url, view("g", "new", large)) != 200 {
			t.Error("a view that was cleared left no room")
		}
		kept := 0
		for _, v := range w.rt.Views("g") {
			kept += len(v.ViewType) + len(v.Content)
		}
		if kept > 1<<20 {
			t.Errorf("%d bytes are kept", kept)
		}
		w.post(url, result(key, "ok"))
		if got := w.text(key); got != "ok" {
			t.Errorf("result %q: a view that was refused resolved the call", got)
		}
	})
}
