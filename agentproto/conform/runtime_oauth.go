package conform

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Cases O: authorizations (doc/protocol.md §5.3).

const authURL = "https://provider.example/authorize?client_id=x&state=canary-state-5309"

func caseO01(t *runtimeTrial) {
	s, h := t.one()
	inv := s.begin(h, "c")
	s.deliver(inv, inv.oauthOf(authURL))
	p := h.prompt("c")
	t.want(p.Kind == "oauth" && p.AuthURL == authURL, "the user is asked for %+v", p)
	h.waits("c")
	if t.has(PartNotices) {
		t.until("the model is told that an authorization is in progress", func() bool { return len(h.see().messages(RoleNotice, "c")) == 1 })
		note := h.see().messages(RoleNotice, "c")[0]
		t.want(!strings.Contains(note.text(), "canary-state"), "the model was given the address: %q", note.text())
	}
	t.want(len(s.invocations("c")) == 1, "the call was sent again")
	s.finish(inv, "authorized")
	h.resolved("c", "authorized")
}

func caseO02(t *runtimeTrial) {
	s, h := t.one()
	for id, url := range map[string]string{
		"http": "http://provider.example/a", "script": "javascript:alert(1)", "data": "data:text/html,x", "control": "https://provider.example/a\r\nb",
		"bidi": "https://provider.example/\u202ea", "user": "https://user:secret@provider.example/a", "long": "https://provider.example/" + strings.Repeat("a", 10_000),
		"relative": "/authorize", "empty": "", "hostless": "https:///authorize",
	} {
		inv := s.begin(h, id)
		p := t.message(inv.CallbackURL, inv.oauthOf(url))
		t.want(p.Status == 200 || p.Status == 400, "a bad auth_url (%s) was answered %d", id, p.Status)
		h.failed(id)
		t.want(len(h.see().promptsOf(id)) == 0, "the user is asked to visit a bad auth_url (%s)", id)
	}
}

func caseO03(t *runtimeTrial) {
	s, h := t.one()
	inv := s.begin(h, "c")
	s.deliver(inv, inv.oauthOf(authURL))
	first := h.prompt("c")
	s.deliver(inv, inv.oauthOf(authURL))
	t.never("the same address is a second prompt", func() bool {
		p := h.see().promptsOf("c")
		return len(p) != 1 || p[0].ID != first.ID
	})
	s.deliver(inv, inv.oauthOf(authURL+"&again=1"))
	t.until("another address takes the place of the first", func() bool {
		p := h.see().promptsOf("c")
		return len(p) == 1 && p[0].AuthURL == authURL+"&again=1"
	})
	s.finish(inv, "done")
	h.resolved("c", "done")
}

func caseO04(t *runtimeTrial) {
	s, h := t.one()
	inv := s.begin(h, "c")
	done := s.begin(h.beside("s2"), "done")
	s.finish(done, "done")
	h.beside("s2").resolved("done", "done")
	for _, m := range []map[string]any{
		with(inv.oauthOf(authURL), fields{"id": "unknown"}), with(inv.oauthOf(authURL), fields{"group_id": "unknown"}),
	} {
		t.message(inv.CallbackURL, m)
	}
	t.message(done.CallbackURL, done.oauthOf(authURL))
	t.never("the user is asked for a call that is unknown or has ended", func() bool {
		return len(h.see().Prompts)+len(h.beside("s2").see().Prompts) > 0
	})
	s.finish(inv, "fine")
	h.resolved("c", "fine")
}

// beside returns the root thread of another session.
func (h *trialThread) beside(id string) *trialThread {
	_, err := h.t.p.Open(h.t.ctx, SessionRequest{ID: id, Images: true})
	h.t.must(err)
	return &trialThread{h.t, id}
}

func caseO05(t *runtimeTrial) {
	s, h := t.one()
	inv := s.begin(h, "c")
	s.deliver(inv, inv.oauthOf(authURL))
	h.prompt("c")
	s.finish(inv, "authorized")
	h.resolved("c", "authorized")
	h.unasked("c")
	h.unchanged("an oauth after the result", func() { t.message(inv.CallbackURL, inv.oauthOf(authURL+"&late=1")) })
	t.want(len(h.see().promptsOf("c")) == 0, "the user is asked for a call that has ended")
}

func caseO06(t *runtimeTrial) {
	t.config.TimeoutsMS.OAuth = 300
	s, other := t.server("tools"), t.server("other")
	t.start()
	t.needs(PartLifetime)
	h := t.session("s")
	inv := s.begin(h, "c")
	s.deliver(inv, inv.oauthOf(authURL))
	h.failed("c")
	h.unasked("c")
	t.until("every server is told that the call is cancelled", func() bool {
		return len(s.cancels("s", "c")) == 1 && len(other.cancels("s", "c")) == 1
	})
	h.late(inv)
}

func caseO07(t *runtimeTrial) {
	s := t.server("tools")
	t.startWithState()
	h := t.session("s")
	inv := s.begin(h, "c")
	s.deliver(inv, inv.oauthOf(authURL))
	h.prompt("c")
	t.restart()
	p := h.prompt("c")
	t.want(p.AuthURL == authURL, "after the restart the user is asked to visit %q", p.AuthURL)
	h.waits("c")
	s.finish(inv, "authorized")
	h.resolved("c", "authorized")
	h.unasked("c")
	t.restart()
	h.resolved("c", "authorized")
	h.unasked("c")
	t.want(t.kept("canary-state-5309") == "", "the address of an authorization that is over can be read in the state: %s", t.kept("canary-state-5309"))
}

// kept returns the name of a file in the state folder that contains a text, or "".
func (t *runtimeTrial) kept(text string) (found string) {
	t.must(filepath.WalkDir(t.config.State, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // a file may disappear meanwhile
		}
		if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte(text)) {
			found = filepath.Base(path)
		}
		return nil
	}))
	return found
}
