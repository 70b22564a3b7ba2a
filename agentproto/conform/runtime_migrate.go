package conform

import (
	"net/http"
	"slices"
	"time"
)

// Cases G: sessions that move to another runtime (doc/protocol.md §10). Each tool server of the
// source has one with the same name at the destination.

// A move is a migration from one runtime to another.
type move struct {
	*runtimeTrial
	to *runtimeTrial
}

// moving starts two runtimes whose tool servers have the given names. Needs says which of them need
// migration.
func (t *runtimeTrial) moving(needs func(name string) bool, names ...string) *move {
	m := &move{t, t.another()}
	secret := "shared-by-two-runtimes-0123456789"
	for _, x := range []*runtimeTrial{t, m.to} {
		for _, name := range names {
			x.server(name).extra = fields{"needsMigration": needs(name)}
		}
		x.config.MigrateListen, x.config.MigrateSecret = t.freeAddress(), secret
		x.startWithState()
		t.needs(PartMigrate)
	}
	return m
}

func always(string) bool { return true }

// migrate moves the session s, which must succeed.
func (m *move) migrate() *trialThread {
	m.must(m.p.Migrate(m.ctx, "s", m.to.p.hello.Migrate))
	return &trialThread{m.to, "s"}
}

// fails requires the migration of the session s to fail, and the session to continue at the source.
func (m *move) fails(s *scriptedTool, h *trialThread) {
	err := m.p.Migrate(m.ctx, "s", m.to.p.hello.Migrate)
	m.want(err != nil, "a migration that failed is reported as done")
	m.want(!(&trialThread{m.to, "s"}).exists(), "the session is at the destination although the migration failed")
	s.finish(s.begin(h, "afterwards"), "at the source")
	h.resolved("afterwards", "at the source")
}

func caseG01(t *runtimeTrial) {
	m := t.moving(func(name string) bool { return name == "moves" }, "tools", "moves")
	s, h := m.servers[0], m.session("s")
	s.finish(s.begin(h, "c"), "before")
	h.resolved("c", "before")
	m.migrate()
	m.want(len(s.posts("/migrate")) == 0, "a server without needsMigration was told to migrate")
	m.want(len(m.servers[1].posts("/migrate")) == 1, "a server with needsMigration was told %d times", len(m.servers[1].posts("/migrate")))
	for _, x := range m.to.servers {
		m.want(len(x.posts("/migrate")) == 0, "a server of the destination was told to migrate")
	}
}

func caseG02(t *runtimeTrial) {
	m := t.moving(always, "tools", "second", "third")
	h := m.session("s")
	s := m.servers[0]
	s.finish(s.begin(h, "c"), "before")
	h.resolved("c", "before")
	early := make(chan bool, 3)
	for _, x := range m.servers {
		x.set(func(x *scriptedTool) {
			x.onOther = func(_ http.ResponseWriter, p *posting) {
				if p.Path == "/migrate" {
					_, err := m.to.p.Thread(m.ctx, "s")
					early <- err == nil
				}
			}
		})
	}
	there := m.migrate()
	for i, x := range m.servers {
		m.want(!<-early, "the conversation was there before every server had moved")
		told := x.posts("/migrate")
		m.want(len(told) == 1 && told[0].Members["session_id"] == "s" && told[0].Members["destination_url"] == m.to.servers[i].base,
			"the server %q was told %+v", x.name, told)
	}
	there.resolved("c", "before")
	far := m.to.servers[0]
	far.finish(far.begin(there, "d"), "after")
	there.resolved("d", "after")
	err := m.p.Say(m.ctx, "s", Turn{Calls: []TurnCall{call("stale")}})
	m.want(err != nil || len(s.invocations("stale")) == 0, "the session goes on at the source, too")
}

func caseG03(t *runtimeTrial) {
	m := t.moving(always, "tools", "second", "third")
	h := m.session("s")
	m.servers[1].set(func(x *scriptedTool) {
		x.onOther = func(w http.ResponseWriter, p *posting) {
			if p.Path == "/migrate" {
				http.Error(w, "the disk is full", http.StatusInternalServerError)
			}
		}
	})
	m.fails(m.servers[0], h)
	m.servers[1].set(func(x *scriptedTool) { x.onOther = nil })
	there := m.migrate() // servers that were moved before are moved again, or did not move
	there.resolved("afterwards", "at the source")
}

func caseG04(t *runtimeTrial) {
	t.config.TimeoutsMS.Migrate = 500
	m := t.moving(always, "tools", "second")
	h := m.session("s")
	m.servers[1].set(func(x *scriptedTool) {
		x.onOther = func(w http.ResponseWriter, p *posting) {
			if p.Path == "/migrate" {
				hold(w, p.Done)
			}
		}
	})
	begun := time.Now()
	m.fails(m.servers[0], h)
	m.want(time.Since(begun) < patience, "a server that hangs held the migration up for %v", time.Since(begun))
}

func caseG05(t *runtimeTrial) {
	m := t.moving(always, "tools")
	h := m.session("s")
	s := m.servers[0]
	inv := s.begin(h, "c")
	meanwhile := make(chan posted, 1)
	s.set(func(x *scriptedTool) {
		x.onOther = func(_ http.ResponseWriter, p *posting) {
			if p.Path == "/migrate" {
				meanwhile <- m.post(inv.CallbackURL, jsonOf(inv.resultOf("meanwhile")))
			}
		}
	})
	there := m.migrate()
	p := <-meanwhile
	m.want(p.Status == http.StatusServiceUnavailable, "a callback during the migration was answered %d, not 503", p.Status)
	m.message(inv.CallbackURL, inv.resultOf("meanwhile"))
	there.resolved("c", "meanwhile")
	m.message(inv.CallbackURL, inv.resultOf("again"))
	m.never("there is a second result", func() bool { return len(there.see().results("c")) != 1 })
}

func caseG06(t *runtimeTrial) {
	m := t.moving(always, "tools")
	h := m.session("s")
	s := m.servers[0]
	done := s.begin(h, "done")
	s.finish(done, "before")
	h.resolved("done", "before")
	var sub *invocation
	if m.has(PartSubscriptions) {
		sub = s.subscribe(h, "sub")
	}
	h.say(call("pending"), call("asking"), call("authorizing"))
	pending, asking, authorizing := s.await("pending"), s.await("asking"), s.await("authorizing")
	s.deliver(asking, asking.choiceOf(s.base+"/respond"))
	s.deliver(authorizing, authorizing.oauthOf(authURL))
	h.prompt("asking")
	h.prompt("authorizing")

	there := m.migrate()
	m.want(there.see().pending("pending") != nil, "the pending call is not at the destination: %+v", there.see().Calls)
	m.want(there.prompt("authorizing").AuthURL == authURL, "the authorization is not at the destination")
	there.unchanged("a late duplicate", func() { m.message(done.CallbackURL, done.resultOf("late")) })
	there.answer(there.prompt("asking").ID, 1)
	s.answeredSomewhere(m.to.servers[0], "/respond")
	for _, inv := range []*invocation{pending, asking, authorizing} {
		m.message(inv.CallbackURL, inv.resultOf("of "+inv.ID))
	}
	for _, id := range []string{"pending", "asking", "authorizing"} {
		there.resolved(id, "of "+id)
	}
	if sub != nil {
		m.message(sub.CallbackURL, sub.eventOf("after the move"))
		got := there.events("sub", 1)
		m.want(slices.Equal(got, []string{"after the move"}), "the events are %q", got)
	}
}

// answeredSomewhere waits for an answer at a tool server, or at the one that now has its state.
func (s *scriptedTool) answeredSomewhere(now *scriptedTool, path string) {
	s.t.until("the answer is posted", func() bool { return len(s.posts(path))+len(now.posts(path)) == 1 })
}
