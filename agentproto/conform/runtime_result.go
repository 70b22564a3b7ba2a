package conform

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// Cases R: results (doc/protocol.md §5.2).

// pixel is the smallest PNG.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func caseR01(t *runtimeTrial) {
	s, h := t.one()
	texts := []string{"plain", "", "  spaces \n and\tlines\r\n", "üñí 漢字 😀 \u2028 </script>", `{"type":"tool_result"}`, strings.Repeat("long ", 20_000)}
	for i, text := range texts {
		id := fmt.Sprintf("c%d", i)
		s.finish(s.begin(h, id), text)
		h.resolved(id, text)
	}
}

// items requires the content of a result to be as described: texts unchanged, images as
// image:mediaType, and a replacement of an image as "placeholder".
func (h *trialThread) items(id string, want ...string) {
	m := h.result(id)
	var got []string
	for i, c := range m.Content {
		switch {
		case c.Type == "image":
			got = append(got, "image:"+c.MediaType)
		case i < len(want) && want[i] == "placeholder" && c.Text != "" && !strings.Contains(c.Text, pixel):
			got = append(got, "placeholder")
		default:
			got = append(got, c.Text)
		}
	}
	h.t.want(fmt.Sprint(got) == fmt.Sprint(want), "the items of %q are %.200q, not %q", id, got, want)
}

func caseR02(t *runtimeTrial) {
	s, h := t.one()
	t.needs(PartImages)
	inv := s.begin(h, "c")
	s.deliver(inv, inv.contentOf(textItem("before"), imageItem("image/png", pixel), textItem("after")))
	h.items("c", "before", "image:image/png", "after")
	t.want(h.result("c").Content[1].Data == pixel, "the image is not the tool's")
}

func caseR03(t *runtimeTrial) {
	s := t.server("tools")
	t.start()
	_, err := t.p.Open(t.ctx, SessionRequest{ID: "blind", Images: false})
	t.must(err)
	h := &trialThread{t, "blind"}
	inv := s.begin(h, "c")
	s.deliver(inv, inv.contentOf(textItem("before"), imageItem("image/png", pixel), textItem("after")))
	h.items("c", "before", "placeholder", "after")
}

func caseR04(t *runtimeTrial) {
	s, h := t.one()
	inv := s.begin(h, "c")
	s.deliver(inv, with(inv.contentOf(textItem("the content")), fields{"text": "the text"}))
	h.items("c", "the content")
}

func caseR05(t *runtimeTrial) {
	s, h := t.one()
	inv := s.begin(h, "c")
	p := t.message(inv.CallbackURL, inv.about("tool_result", fields{}))
	t.want(p.Status == 400, "a result without text and content was answered %d, not 400", p.Status)
	h.failed("c")
}

func caseR06(t *runtimeTrial) {
	s, h := t.one()
	inv := s.begin(h, "c")
	for range 3 {
		s.finish(inv, "the same")
	}
	h.resolved("c", "the same")
	t.never("a repeated result is a second one", func() bool { return len(h.see().results("c")) != 1 })
}

func caseR07(t *runtimeTrial) {
	s, h := t.one()
	inv := s.begin(h, "c")
	s.finish(inv, "the first")
	s.finish(inv, "the second")
	h.resolved("c", "the first")
	t.never("a second result replaces the first", func() bool {
		found := h.see().results("c")
		return len(found) != 1 || found[0].text() != "the first"
	})
}

func caseR08(t *runtimeTrial) {
	s, h := t.one()
	inv := s.begin(h, "c")
	var taken, others atomic.Int64
	together(100, func(i int) {
		for range 50 {
			p := t.post(inv.CallbackURL, jsonOf(inv.resultOf(fmt.Sprint("result ", i))))
			switch {
			case p.Status == 200:
				taken.Add(1)
				return
			case p.Err != nil || p.Status < 500:
				others.Add(1)
				return
			}
			t.pass(10 * time.Millisecond)
		}
	})
	t.want(taken.Load() == 100, "of 100 results %d were answered 200, and %d neither 200 nor 503", taken.Load(), others.Load())
	m := h.result("c")
	t.want(strings.HasPrefix(m.text(), "result "), "the result is %q", m.text())
	t.never("there is a second result", func() bool { return len(h.see().results("c")) != 1 })
	if t.has(PartStats) {
		t.until("99 of 100 results are counted as duplicates", func() bool { return t.stats().Duplicates == 99 })
	}
}

func (t *runtimeTrial) stats() RuntimeStats {
	s, err := t.p.Stats(t.ctx)
	t.must(err)
	return s
}

func caseR09(t *runtimeTrial) {
	s, h := t.one()
	inv := s.begin(h, "c")
	h.unchanged("results for unknown ids", func() {
		for _, change := range []fields{{"id": "nobody"}, {"group_id": "nowhere"}, {"id": "nobody", "group_id": "nowhere"}} {
			p := t.message(inv.CallbackURL, with(inv.resultOf("for nobody"), change))
			t.want(p.Status == 200 || p.refused(), "a result for %v was answered %d", change, p.Status)
		}
	})
	t.want(!(&trialThread{t, "nowhere"}).exists(), "a callback made a thread")
	h.waits("c")
	s.finish(inv, "for the call")
	h.resolved("c", "for the call")
}

func caseR10(t *runtimeTrial) {
	s := t.server("tools")
	t.start()
	a, b := t.session("a"), t.session("b")
	in := s.begin(a, "of_a")
	of := s.begin(b, "of_b")
	for _, m := range []map[string]any{
		with(in.resultOf("crossed"), fields{"group_id": "b"}),
		with(in.resultOf("crossed"), fields{"id": "of_b"}),
		with(of.resultOf("crossed"), fields{"group_id": "a"}),
	} {
		p := t.message(in.CallbackURL, m)
		t.want(p.Status == 200 || p.refused(), "a result for a call of another thread was answered %d", p.Status)
	}
	a.waits("of_a")
	b.waits("of_b")
	s.finish(in, "right a")
	s.finish(of, "right b")
	a.resolved("of_a", "right a")
	b.resolved("of_b", "right b")
}

// late posts a late result, which must have no effect.
func (h *trialThread) late(inv *invocation) {
	h.unchanged("a late result", func() {
		p := h.t.message(inv.CallbackURL, inv.resultOf("too late"))
		h.t.want(p.Status == 200 || p.refused(), "a late result was answered %d", p.Status)
	})
}

func caseR11(t *runtimeTrial) {
	t.config.TimeoutsMS.Call, t.config.TimeoutsMS.LongCall = 300, 60_000
	s := t.server("tools", echoTool("echo"), longTool())
	t.start()
	h := t.session("s")
	var ended uint64
	if t.has(PartInterrupt) {
		inv := s.beginLong(h, "interrupted")
		h.interrupt()
		h.failed("interrupted")
		h.late(inv)
		ended++
	}
	if t.has(PartLifetime) {
		inv := s.begin(h, "short")
		h.failed("short")
		h.late(inv)
		ended++
	}
	if t.has(PartStats) {
		t.until("late results are counted", func() bool { return t.stats().Late >= ended })
	}
	inv := s.beginLong(h, "closed")
	h.close()
	t.until("a closed thread has no pending calls", func() bool { return len(h.see().Calls) == 0 })
	h.late(inv)
}

// longTool returns a tool whose calls live for TimeoutsMS.LongCall.
func longTool() map[string]any {
	tool := echoTool("long")
	tool["annotations"] = fields{"longRunning": true}
	return tool
}

// beginLong makes the model of a thread call the tool long, and returns the invocation.
func (s *scriptedTool) beginLong(h *trialThread, id string) *invocation {
	h.say(callOf(id, "long", fields{}))
	return s.await(id)
}

func caseR12(t *runtimeTrial) {
	s := t.server("tools")
	t.startWithState()
	h := t.session("s")
	for i := range 3 {
		id := fmt.Sprintf("c%d", i)
		inv := s.begin(h, id)
		p := t.message(inv.CallbackURL, inv.resultOf("kept "+id))
		t.want(p.Status == 200, "a good result was answered %d", p.Status)
		t.restart()
		h.resolved(id, "kept "+id)
	}
	for i := range 3 {
		h.resolved(fmt.Sprintf("c%d", i), fmt.Sprintf("kept c%d", i))
	}
}

func caseR13(t *runtimeTrial) {
	s, h := t.one()
	t.needs(PartDisplay)
	diff := fields{"type": "diff", "content": fields{"path": "a.txt", "patch": "-old\n+new\n"}}
	text := fields{"type": "text", "content": "shown text"}
	hologram := fields{"type": "hologram", "content": fields{"rays": 3}}
	shown := []struct {
		display []any
		want    string
	}{
		{[]any{diff, text}, "diff"}, {[]any{hologram, diff}, "diff"}, {[]any{text}, "text"}, {[]any{hologram}, ""}, {[]any{}, ""},
	}
	for i, x := range shown {
		id := fmt.Sprintf("c%d", i)
		inv := s.begin(h, id)
		s.deliver(inv, with(inv.resultOf("for the model"), fields{"display_as": x.display}))
		h.resolved(id, "for the model")
		m := h.result(id)
		got := ""
		if m.Display != nil {
			got = m.Display.Type
		}
		t.want(got == x.want, "of %v the user is shown %q, not %q", x.display, got, x.want)
		if got == "diff" {
			t.want(m.Display.Path == "a.txt" && m.Display.Patch == "-old\n+new\n", "the diff is %+v", m.Display)
		}
	}
}

func caseR14(t *runtimeTrial) {
	s, h := t.one()
	notImage := base64.StdEncoding.EncodeToString([]byte("<svg onload=alert(1)>"))
	for i, item := range []map[string]any{
		imageItem("application/x-executable", pixel), imageItem("image/png", "!!! not base64 !!!"), imageItem("text/html", notImage),
		imageItem("image/png\r\nX: y", pixel),
	} {
		id := fmt.Sprintf("c%d", i)
		inv := s.begin(h, id)
		p := t.message(inv.CallbackURL, inv.contentOf(textItem("beside it"), item))
		t.want(p.Status == 200 || p.Status == 400, "an image that is none was answered %d", p.Status)
		m := h.result(id)
		for _, c := range m.Content {
			t.want(c.Type != "image", "the model was given %q as an image", c.MediaType)
		}
		if p.Status == 200 {
			t.want(strings.HasPrefix(m.text(), "beside it"), "the text beside a bad image is lost: %q", m.text())
		}
	}
}

func caseR15(t *runtimeTrial) {
	s, h := t.one()
	inv := s.begin(h, "c")
	p := t.post(inv.CallbackURL, jsonOf(inv.resultOf(strings.Repeat("x", 5<<20))))
	t.want(p.Err != nil || p.Status == 413 || p.Status == 200, "a result of 5 MB was answered %d", p.Status)
	m := h.result("c")
	t.want(len(m.text()) <= 4<<20, "the model was given %d bytes", len(m.text()))
	inv = s.begin(h, "d")
	before := t.p.memory()
	large := jsonOf(inv.resultOf(strings.Repeat("x", 5<<20)))
	together(20, func(int) { t.post(inv.CallbackURL, large) })
	h.result("d")
	grown := t.p.memory() - before
	t.want(grown < 256<<20, "twenty results of 5 MB at once took %d MB of memory", grown>>20)
	s.finish(s.begin(h, "e"), "and on")
	h.resolved("e", "and on")
}
