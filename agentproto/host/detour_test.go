package host

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
)

func TestO01O05OAuth(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, key, url := w.pending()
		if status := w.post(url, oauth("https://login.test/a")); status != 200 {
			t.Fatalf("status %d", status)
		}
		w.pass(5 * time.Minute)
		if got, want := w.user.saw(), []string{"oauth g/1 https://login.test/a"}; !slices.Equal(got, want) {
			t.Errorf("O01: saw %q, want %q", got, want)
		}
		if got, want := w.user.progress(), []string{"g/1 oauth pending"}; !slices.Equal(got, want) {
			t.Errorf("O01: progress %q, want %q", got, want)
		}
		w.post(url, result(key, "Error: access denied"))
		if got := w.text(key); got != "Error: access denied" {
			t.Errorf("O05: result %q", got)
		}
		if got, want := w.user.saw()[1:], []string{"withdraw g/1 https://login.test/a"}; !slices.Equal(got, want) {
			t.Errorf("O05: saw %q, want %q", got, want)
		}
		if n := len(tool.invocations()); n != 1 {
			t.Errorf("%d invocations, want 1: an authorization is no reason for another", n)
		}
	})
}

func TestO03OAuthAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, _, url := w.pending()
		for _, to := range []string{"https://login.test/a", "https://login.test/a", "https://login.test/b"} {
			if status := w.post(url, oauth(to)); status != 200 {
				t.Errorf("status %d", status)
			}
		}
		want := []string{"oauth g/1 https://login.test/a", "withdraw g/1 https://login.test/a", "oauth g/1 https://login.test/b"}
		if got := w.user.saw(); !slices.Equal(got, want) {
			t.Errorf("saw %q, want %q", got, want)
		}
		if st := w.stats(); st.Repeated != 1 {
			t.Errorf("stats %+v, want 1 repeated", st.Counts)
		}
	})
}

func TestO04OAuthTooLate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, key, url := w.pending()
		w.post(url, result(key, "done"))
		if status := w.post(url, oauth("https://login.test/a")); status != 200 {
			t.Errorf("status %d, want 200", status)
		}
		if got := w.user.saw(); len(got) != 0 {
			t.Errorf("saw %q, want nothing", got)
		}
	})
}

func TestO06NobodyAuthorizes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.Timeouts.OAuth = 3 * time.Minute
		tool, key, url := w.pending()
		start := time.Now()
		w.post(url, oauth("https://login.test/a"))
		r, err := w.rt.Await(t.Context(), key)
		if err != nil || r.Cause != agentproto.ByTimeout || !r.Result.IsError() {
			t.Errorf("resolution %+v, %v, want timed out", r, err)
		}
		if d := time.Since(start); d != 3*time.Minute {
			t.Errorf("after %v, want 3 minutes", d)
		}
		if got := tool.noticed(); len(got) != 1 || !strings.HasPrefix(got[0], "/cancel_tool_call ") {
			t.Errorf("notices %q, want one cancellation", got)
		}
	})
}

const answerURL = "http://tool.test/answer"

func TestU01Choice(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, key, url := w.pending()
		if status := w.post(url, choice(`["no","yes"]`, 0, answerURL)); status != 200 {
			t.Fatalf("status %d", status)
		}
		if got, want := w.user.saw(), []string{"choice g/1 Go on?"}; !slices.Equal(got, want) {
			t.Errorf("saw %q, want %q", got, want)
		}
		for _, bad := range []int{2, -2} {
			if err := w.rt.Answer(t.Context(), key, answerURL, bad); !errors.Is(err, ErrBadChoice) {
				t.Errorf("Answer %d: %v, want ErrBadChoice", bad, err)
			}
		}
		if err := w.rt.Answer(t.Context(), key, "http://tool.test/other", 1); err != nil {
			t.Errorf("answer to no prompt: %v, want nil", err)
		}
		if err := w.rt.Answer(t.Context(), key, answerURL, 1); err != nil {
			t.Fatal(err)
		}
		if err := w.rt.Answer(t.Context(), key, answerURL, 0); err != nil {
			t.Errorf("U06: second answer: %v, want nil", err)
		}
		if got, want := tool.answersGot(), []string{`{"id":"1","selected":1}`}; !slices.Equal(got, want) {
			t.Errorf("U01, U06: answers %q, want %q", got, want)
		}
		w.post(url, result(key, "done"))
		if got := w.text(key); got != "done" {
			t.Errorf("result %q", got)
		}
		want := []string{"g/1 choice pending", "g/1 pending", "g/1 completed"}
		if got := w.user.progress(); !slices.Equal(got, want) {
			t.Errorf("progress %q, want %q", got, want)
		}
	})
}

func TestU02Dismissal(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, key, url := w.pending()
		if err := w.rt.Answer(t.Context(), key, answerURL, Dismiss); err != nil {
			t.Errorf("dismissal of no prompt: %v, want nil", err)
		}
		w.post(url, choice(`["a","b","c"]`, 2, answerURL))
		synctest.Wait()
		if err := w.rt.Answer(t.Context(), key, answerURL, Dismiss); err != nil {
			t.Fatal(err)
		}
		if got, want := tool.answersGot(), []string{`{"id":"1","selected":2}`}; !slices.Equal(got, want) {
			t.Errorf("answers %q, want %q", got, want)
		}
	})
}

func TestU02NobodyAnswers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, key, url := w.pending()
		w.post(url, choice(`["a","b"]`, 1, answerURL))
		w.pass(24*time.Hour - time.Second)
		if got := tool.answersGot(); len(got) != 0 {
			t.Errorf("answers %q before the time", got)
		}
		w.pass(time.Second)
		if got, want := tool.answersGot(), []string{`{"id":"1","selected":1}`}; !slices.Equal(got, want) {
			t.Errorf("answers %q, want %q", got, want)
		}
		if status := w.post(url, result(key, "ok")); status != 200 || w.text(key) != "ok" {
			t.Errorf("result after a choice of 24 h: status %d", status)
		}
	})
}

func TestU04AnswerRetried(t *testing.T) {
	tests := []struct {
		statuses []int
		attempts int
		want     string // of the error; empty if the answer was accepted
	}{
		{[]int{200}, 1, ""},
		{[]int{503, 503, 200}, 3, ""},
		{[]int{404}, 1, "refused the answer: 404"},
		{[]int{307}, 1, "redirected the answer, which is not followed: 307"},
		{[]int{500}, 5, "failed: 500"},
	}
	for _, tt := range tests {
		inWorld(t, func(t *testing.T, w *world) {
			tool, key, url := w.pending()
			tool.answered = func(n int, rw http.ResponseWriter) {
				rw.WriteHeader(tt.statuses[min(n, len(tt.statuses))-1])
			}
			w.post(url, choice(`["a","b"]`, 0, answerURL))
			synctest.Wait()
			if err := w.rt.Answer(t.Context(), key, answerURL, 1); err != nil {
				t.Fatal(err)
			}
			w.pass(time.Minute)
			if got := tool.answersGot(); len(got) != tt.attempts || len(slices.Compact(got)) != 1 {
				t.Errorf("%v: answers %q, want %d equal ones", tt.statuses, got, tt.attempts)
			}
			if tt.want == "" {
				w.post(url, result(key, "ok"))
			}
			r, err := w.rt.Await(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if tt.want != "" && (r.Cause != agentproto.ByAnswerFailed || !strings.HasSuffix(r.Result.String(), tt.want)) {
				t.Errorf("%v: %v %q, want %q", tt.statuses, r.Cause, r.Result, tt.want)
			}
			if tt.want == "" && r.Cause != agentproto.ByResult {
				t.Errorf("%v: %v %q, want a result", tt.statuses, r.Cause, r.Result)
			}
		})
	}
}

// TestU04AnswerHangs checks that a tool server that does not accept an answer delays no
// other call.
func TestU04AnswerHangs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, key, url := w.pending()
		hang := make(chan struct{})
		tool.answered = func(int, http.ResponseWriter) { <-hang }
		defer close(hang)
		w.post(url, choice(`["a","b"]`, 0, answerURL))
		synctest.Wait()
		w.rt.Answer(t.Context(), key, answerURL, 1)
		second := w.call("g", "2")
		start := time.Now()
		w.post(tool.callback(), result(second, "ok"))
		if got := w.text(second); got != "ok" || time.Since(start) > 0 {
			t.Errorf("other call: %q after %v", got, time.Since(start))
		}
		r, err := w.rt.Await(t.Context(), key)
		if err != nil || r.Cause != agentproto.ByAnswerFailed {
			t.Errorf("resolution %+v, %v", r, err)
		}
		if d := time.Since(start); d < 50*time.Second || d > 65*time.Second {
			t.Errorf("gave up after %v, want five times 10 s and the pauses", d)
		}
	})
}

func TestU05AllowedOrigin(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.AllowOrigins = []string{"http://ui.test"}
		ui := w.tool("ui.test")
		_, key, url := w.pending()
		if status := w.post(url, choice(`["a"]`, 0, "http://ui.test/answer")); status != 200 {
			t.Fatalf("status %d", status)
		}
		synctest.Wait()
		w.rt.Answer(t.Context(), key, "http://ui.test/answer", 0)
		if got := ui.answersGot(); len(got) != 1 {
			t.Errorf("answers %q, want one", got)
		}
	})
}

func TestU07InterruptedPrompt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, key, url := w.pending()
		w.post(url, choice(`["a","b"]`, 0, answerURL))
		if err := w.rt.Cancel(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		w.text(key)
		if err := w.rt.Answer(t.Context(), key, answerURL, 1); err != nil {
			t.Errorf("late answer: %v, want nil", err)
		}
		if got, want := w.user.saw()[1:], []string{"withdraw g/1 " + answerURL}; !slices.Equal(got, want) {
			t.Errorf("saw %q, want %q", got, want)
		}
		if got := tool.answersGot(); len(got) != 0 {
			t.Errorf("answers %q, want none", got)
		}
		if got, want := tool.noticed(), []string{`/cancel_tool_call {"thread_id":"g","tool_call_id":"1"}`}; !slices.Equal(got, want) {
			t.Errorf("notices %q, want %q", got, want)
		}
	})
}
