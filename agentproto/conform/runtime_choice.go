package conform

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// Cases U: the user is asked to choose (doc/protocol.md §5.4 and §8).

// ask makes a call ask its user, and returns the path for the answer.
func (s *scriptedTool) ask(h *trialThread, id string) (*invocation, string) {
	inv := s.begin(h, id)
	path := "/respond/" + id
	s.deliver(inv, inv.choiceOf(s.base+path))
	return inv, path
}

// selected returns the answers that were posted to a path.
func (s *scriptedTool) selected(path, id string) (all []int) {
	for _, p := range s.posts(path) {
		var answer struct {
			ID       string `json:"id"`
			Selected *int   `json:"selected"`
		}
		err := json.Unmarshal(p.Body, &answer)
		s.t.want(err == nil && answer.ID == id && answer.Selected != nil && p.Method == http.MethodPost,
			"the answer is %s %.200q and not a POST of id and selected", p.Method, p.Body)
		all = append(all, *answer.Selected)
	}
	return all
}

// answered requires exactly one answer to be posted to a path.
func (s *scriptedTool) answered(path, id string, want int) {
	s.t.until("the answer is posted to the response_url", func() bool { return len(s.posts(path)) > 0 })
	s.t.never("the answer is posted again", func() bool { return len(s.posts(path)) > 1 })
	got := s.selected(path, id)
	s.t.want(got[0] == want, "the answer is %d, not %d", got[0], want)
}

func caseU01(t *runtimeTrial) {
	s, h := t.one()
	inv, path := s.ask(h, "c")
	p := h.prompt("c")
	t.want(p.Kind == "choice" && p.Text == "May I?" && fmt.Sprint(p.Choices) == "[no once always]" && p.Default == 2, "the user is asked %+v", p)
	h.waits("c")
	h.answer(p.ID, 1)
	s.answered(path, "c", 1)
	h.unasked("c")
	h.waits("c")
	s.finish(inv, "chosen")
	h.resolved("c", "chosen")
}

func caseU02(t *runtimeTrial) {
	s, h := t.one()
	inv, path := s.ask(h, "c")
	h.answer(h.prompt("c").ID, -1)
	s.answered(path, "c", 2)
	s.finish(inv, "dismissed")
	h.resolved("c", "dismissed")
}

func caseU03(t *runtimeTrial) {
	s, h := t.one()
	for id, change := range map[string]fields{
		"none": {"choices": []string{}}, "missing": {"choices": nil}, "beyond": {"default": 3}, "negative": {"default": -1},
		"fraction": {"default": 0.5}, "nowhere": {"response_url": nil}, "relative": {"response_url": "/respond"}, "number": {"choices": []any{1, 2}},
	} {
		inv := s.begin(h, id)
		p := t.message(inv.CallbackURL, with(inv.choiceOf(s.base+"/respond"), change))
		t.want(p.Status == 400, "a bad user_choice (%s) was answered %d, not 400", id, p.Status)
		h.failed(id)
		t.want(len(h.see().promptsOf(id)) == 0, "the user is asked a bad user_choice (%s)", id)
	}
}

func caseU04(t *runtimeTrial) {
	s, h := t.one()
	s.set(func(s *scriptedTool) {
		answers := 0
		s.onOther = func(w http.ResponseWriter, p *posting) {
			switch {
			case p.Path == "/respond/gone":
				w.WriteHeader(http.StatusNotFound)
			case strings.HasPrefix(p.Path, "/respond/"):
				s.mu.Lock()
				defer s.mu.Unlock()
				if answers++; answers <= 2 {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			}
		}
	})
	inv, path := s.ask(h, "busy")
	h.answer(h.prompt("busy").ID, 1)
	t.until("an answer that was answered 503 is posted again", func() bool { return len(s.posts(path)) == 3 })
	for _, got := range s.selected(path, "busy") {
		t.want(got == 1, "a later attempt has another answer: %d", got)
	}
	h.waits("busy")
	s.finish(inv, "heard")
	h.resolved("busy", "heard")

	_, path = s.ask(h, "gone")
	h.answer(h.prompt("gone").ID, 0)
	h.failed("gone")
	t.want(len(s.posts(path)) == 1, "an answer that was answered 404 was posted %d times", len(s.posts(path)))
}

func caseU05(t *runtimeTrial) {
	s, h := t.one()
	hole := t.sink()
	urls := append([]string{
		"http://169.254.169.254/latest/meta-data/", "http://metadata.google.internal/", "http://" + hole.address + "/respond",
		"file:///etc/passwd", "ftp://127.0.0.1/x", "javascript:alert(1)", "https://elsewhere.example/respond",
		strings.Replace(s.base, "http://", "http://user:pw@", 1) + "/respond", strings.Replace(s.base, "http://", "https://", 1) + "/respond",
	}, spellings(hole.port())...)
	for i, url := range urls {
		id := fmt.Sprintf("c%d", i)
		inv := s.begin(h, id)
		p := t.message(inv.CallbackURL, inv.choiceOf(url))
		t.want(p.Status == 200 || p.Status == 400, "the response_url %q was answered %d", url, p.Status)
		h.refuses(id)
	}
	hole.untouched(t)
}

// refuses requires a call whose prompt cannot be answered to end with an error, at the latest when
// the user answers it.
func (h *trialThread) refuses(id string) {
	h.t.until("the user is asked, or the call ends", func() bool {
		seen := h.see()
		return len(seen.promptsOf(id))+len(seen.results(id)) > 0
	})
	if asked := h.see().promptsOf(id); len(asked) > 0 {
		h.answer(asked[0].ID, 1)
	}
	h.failed(id)
}

func caseU06(t *runtimeTrial) {
	s, h := t.one()
	inv, path := s.ask(h, "c")
	prompt := h.prompt("c").ID
	together(8, func(i int) {
		one := 1
		_ = t.p.Answer(t.ctx, "s", Answer{Prompt: prompt, Selected: &one}) // some are too late, which is the point of this case
	})
	s.answered(path, "c", 1)
	zero := 0
	_ = t.p.Answer(t.ctx, "s", Answer{Prompt: prompt, Selected: &zero}) // this one is too late as well
	s.answered(path, "c", 1)
	s.finish(inv, "once")
	h.resolved("c", "once")
}

func caseU07(t *runtimeTrial) {
	s, h := t.one()
	t.needs(PartInterrupt)
	inv, path := s.ask(h, "c")
	prompt := h.prompt("c").ID
	h.interrupt()
	h.failed("c")
	h.unasked("c")
	t.until("the server is told that the call is cancelled", func() bool { return len(s.cancels("s", "c")) == 1 })
	one := 1
	_ = t.p.Answer(t.ctx, "s", Answer{Prompt: prompt, Selected: &one}) // an error may say that the prompt is gone
	t.never("the answer to a withdrawn prompt is posted", func() bool { return len(s.posts(path)) > 0 })
	h.late(inv)
}

func caseU08(t *runtimeTrial) {
	s := t.server("tools")
	t.startWithState()
	h := t.session("s")
	inv, path := s.ask(h, "c")
	before := h.prompt("c")
	t.want(h.prompt("c").Text == before.Text, "a second look shows another prompt")
	t.restart()
	again := h.prompt("c")
	t.want(again.Text == before.Text && len(again.Choices) == 3, "after the restart the user is asked %+v", again)
	h.answer(again.ID, 1)
	s.answered(path, "c", 1)
	s.finish(inv, "after all")
	h.resolved("c", "after all")
}
