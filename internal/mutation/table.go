package main

// mutations are the changes that tests must notice.
var mutations = []mutation{
	{"First keeps the last value of a step", "internal/engine/operators/aggregate.go", []edit{{
		"			c.K[j], c.V[j], c.H[j] = b.K[i], vs[i], hs[i]\n",
		"			c.K[j], c.V[j], c.H[j] = b.K[i], vs[i], hs[i]\n			for l, k := range b.K {\n				if k == b.K[i] {\n					c.V[j] = vs[l]\n				}\n			}\n",
	}}},
	{"FoldEarlyStop forgets that a key is done", "internal/engine/operators/aggregate.go", []edit{{
		"			m++\n			*s = early[A]{done: true}", "			m++\n			*s = early[A]{acc: init()}",
	}, {
		"		var none A\n		s.acc, s.done = none, true\n", "		*s = early[A]{acc: init()}\n",
	}}},
	{"a batch delivers again what it delivered", "internal/engine/operators/slice.go", []edit{{
		"		clear(fresh)\n		fresh = fresh[:0]\n", "		fresh = fresh[:min(1, len(fresh))]\n",
	}}},
	{"a snapshot is one run old", "internal/engine/operators/slice.go", []edit{{
		"	r.AtPre(func() {\n		if c.IsSet {\n			set(c.Value)\n		}\n	})",
		"	late, any := c.Value, false\n	r.AtPre(func() {\n		if any {\n			set(late)\n		} else if c.IsSet {\n			set(c.Value)\n		}\n		late, any = c.Value, c.IsSet\n	})",
	}}},
	{"slices run in the order in which they were made", "internal/engine/location.go", []edit{{
		"	s.Regions = topological(s.Regions)\n", "",
	}}},
	{"Unique forgets after a while", "internal/engine/operators/stream_scan.go", []edit{{
		"		news = seen.PutNew(batch, hs, news[:0])\n", "		if seen.Len() > 2 {\n			seen.Clear()\n		}\n		news = seen.PutNew(batch, hs, news[:0])\n",
	}}},
	{"KeyCount does not see removals", "internal/engine/operators/aggregate.go", []edit{{
		"					present.Delete(k, hs[i])\n", "					continue\n",
	}}},
	{"an entry stays although a filter drops its new value", "internal/engine/operators/keyed.go", []edit{{
		"c.K[m], c.V[m], gone[m] = k, u, !ok", "c.K[m], c.V[m], gone[m] = k, u, !ok && b.Gone != nil && b.Gone[i]",
	}}},
	{"timers fire in the order in which they were set", "internal/engine/operators/timers.go", []edit{
		{"	a.fired = func(slot uint32) {", "	last := int64(0)\n	a.fired = func(slot uint32) {"},
		{"			at := a.loc.Alarm(max(d, least))\n", "			at := max(a.loc.Alarm(max(d, least)), last)\n			last = at\n"},
	}},
	{"timers fire operator by operator", "internal/engine/fire.go", []edit{{
		"	for {\n		at, ok := s.Deadline()\n",
		"	for i := range s.Timers {\n		s.now = now\n		s.Timers[i].Expire(now)\n	}\n	for {\n		at, ok := s.Deadline()\n",
	}}},
	{"a timer counts from when the one before it was fired", "internal/engine/fire.go", []edit{{
		"				s.now = at\n", "				s.now = now\n",
	}}},
	{"timers of one operator overtake those of another", "internal/engine/fire.go", []edit{{
		"	return max(at, now)\n", "	return max(at, until)\n",
	}, {
		"	for j := range s.Timers {\n		if j == i {", "	until := now\n	for j := range s.Timers {\n		if j == i {",
	}}},
	{"everybody who takes a key gets it", "internal/engine/port/entry_waiter.go", []edit{{
		"		if w.lost = w.take && taken; !w.lost {", "		if true {",
	}}},
	{"a value that comes as its taker gives up is lost", "internal/engine/port/entry_output.go", []edit{{
		"	if w.given { // at this moment", "	if false { // at this moment",
	}}},
	{"a second Put of a key is accepted", "internal/engine/port/keyed_input.go", []edit{
		{"		if (s.Queued >= s.Graph.Settings.Queue || in.Refuse() != nil) && in.has(k, h) {", "		if false {"},
		{"engine.Enqueue {\n		if !in.put(k, h) {", "engine.Enqueue {\n		if !in.put(k, h) && false {"},
	}},
	{"state is not carried to the next run", "internal/engine/operators/slice.go", []edit{{
		"				*current, given = after, false\n", "				_, given = after, false\n",
	}}},
	{"state that is kept shows in the same run", "internal/engine/operators/slice.go", []edit{{
		"			after, given = v, true\n", "			after, given = v, true\n			*current = v\n",
	}}},
	{"outputs are published before the cut", "internal/engine/step.go", []edit{{
		"	for _, r := range s.Regions {\n		if r.News && c.Has(r) {",
		"	s.Publish()\n	for _, r := range s.Regions {\n		if r.News && c.Has(r) {",
	}}},
	{"a step is published one port after another", "internal/engine/output.go", []edit{{
		"	if len(s.Ports) == 1 {\n		s.Ports[0].Release()\n	} else {",
		"	if len(s.Ports) > 0 {\n		for _, p := range s.Ports {\n			p.Release()\n		}\n	} else {",
	}}},
	{"calls begin and messages leave before ports show the step", "internal/engine/output.go", []edit{
		{"	if len(s.Ports) == 1 {", "	for _, x := range s.Later {\n		s.Graph.Driver.Deliver(x)\n	}\n	if len(s.Ports) == 1 {"},
		{"	s.Ports = s.Ports[:0]\n	for _, x := range s.Later {\n		s.Graph.Driver.Deliver(x)\n	}\n", "	s.Ports = s.Ports[:0]\n"},
	}},
	{"Join forgets all but the first value of a key", "internal/engine/operators/keyed_join.go", []edit{{
		"			mine.Add(k, hs[i], b.V[i])\n", "			if mine.First(k, hs[i]) == 0 {\n				mine.Add(k, hs[i], b.V[i])\n			}\n",
	}}},
	{"a threshold has to be passed, not reached", "keyedsingleton/threshold.go", []edit{{
		"return v >= threshold", "return v > threshold",
	}}},
	{"a passive snapshot runs its slice", "internal/engine/region.go", []edit{{
		"	if !t.passive {\n		t.Region.News = true\n	}", "	t.Region.News = true",
	}}},
	{"Limit starts again with each batch", "internal/engine/operators/stream_scan.go", []edit{{
		"			*left -= len(batch)\n", "",
	}}},
	{"tables are not saved", "internal/engine/state/state.go", []edit{{
		"	m.Add(t.Clear, func(op *engine.Op) engine.State {\n",
		"	if m.Region == nil {\n		return t\n	}\n	m.Add(t.Clear, func(op *engine.Op) engine.State {\n",
	}}},
	{"tables are not cleared at the end of a run", "internal/engine/state/state.go", []edit{{
		"	m.Add(t.Clear, func(op *engine.Op) engine.State {\n",
		"	m.Add(func() {}, func(op *engine.Op) engine.State {\n",
	}}},
	{"variables are not saved", "internal/engine/state/state.go", []edit{{
		"	m.Add(func() { *p = init }, func(op *engine.Op) engine.State {\n",
		"	if m.Region == nil {\n		return p\n	}\n	m.Add(func() { *p = init }, func(op *engine.Op) engine.State {\n",
	}}},
	{"variables keep their value after a run", "internal/engine/state/state.go", []edit{{
		"	m.Add(func() { *p = init }, func(op *engine.Op) engine.State {\n",
		"	m.Add(func() {}, func(op *engine.Op) engine.State {\n",
	}}},
	{"what was begun in a run goes on in the next", "internal/engine/state/state.go", []edit{{
		"	m.Add(func() { *b = optional[T]{} }, func(op *engine.Op) engine.State {\n",
		"	m.Add(func() {}, func(op *engine.Op) engine.State {\n",
	}}},
	{"a view has the entries of the run before", "internal/engine/state/view.go", []edit{{
		"	m.Add(func() { *v.m = *cow.NewMap[K, V]() }, func(op *engine.Op) engine.State {\n",
		"	m.Add(func() {}, func(op *engine.Op) engine.State {\n",
	}}},
	{"the values of each key are not saved", "internal/engine/state/lists.go", []edit{{
		"	m.Add(l.clear, func(op *engine.Op) engine.State {\n",
		"	if m.Region == nil {\n		return l\n	}\n	m.Add(l.clear, func(op *engine.Op) engine.State {\n",
	}}},
	{"pending timers are not saved", "internal/engine/state/timers.go", []edit{{
		"	m.Add(p.clear, func(op *engine.Op) engine.State {\n",
		"	if p != nil {\n		return p\n	}\n	m.Add(p.clear, func(op *engine.Op) engine.State {\n",
	}}},
	{"when entries are forgotten is not saved", "internal/engine/state/deadlines.go", []edit{{
		"	m.Add(t.clear, func(*engine.Op) engine.State { return &deadlinesState[K, V]{t: t, table: table, every: every} })\n",
		"",
	}}},
	{"numbers of completed keys are not saved", "internal/engine/state/completed.go", []edit{{
		"	m.Add(set.Clear, func(op *engine.Op) engine.State {\n",
		"	if m.Region == nil {\n		return set\n	}\n	m.Add(set.Clear, func(op *engine.Op) engine.State {\n",
	}}},
	{"completed keys that are forgotten later are not saved", "internal/engine/state/completed.go", []edit{{
		"	for _, t := range []*keyed.Table[K, struct{}]{one, two} {\n",
		"	for i, t := range []*keyed.Table[K, struct{}]{one, two} {\n		if i >= 0 {\n			continue\n		}\n",
	}}},
	{"a step of several inputs leaves its cut out", "internal/engine/live/live.go", []edit{{
		"	p.Take = l.Take(p.Take)\n", "	if p.Take, p.Cut = l.Take(p.Take), engine.CutAll; len(p.Take) > 1 {\n		p.Cut = engine.CutNone\n	}\n",
	}}},
	{"a record that comes while its location waits for a reader is lost", "internal/engine/port/input.go", []edit{{
		"	if how == engine.Enqueue {\n		in.buf = append(in.buf, x)\n		in.Accepted(in, 1)\n",
		"	if how == engine.Enqueue && in.Loc.Parked {\n		in.Loc.Mu.Unlock()\n		return nil\n	}\n	if how == engine.Enqueue {\n		in.buf = append(in.buf, x)\n		in.Accepted(in, 1)\n",
	}}},
	{"the simulator takes from the first lane only", "internal/engine/simulate/move.go", []edit{{
		"\t\tfor _, h := range in.Heads() {\n", "\t\tfor _, h := range in.Heads()[:1] {\n",
	}}},
	{"the simulator cuts slices only when nothing waits", "internal/engine/simulate/move.go", []edit{{
		"		if r.News {\n", "		if r.News && s.Queued == 0 {\n",
	}}},
	{"the simulator fires timers only when nothing waits", "internal/engine/simulate/move.go", []edit{{
		"\tif len(s.Timers) == 0 || s.Stopping {\n", "\tif len(s.Timers) == 0 || s.Stopping || s.Queued > 0 {\n",
	}}},
	{"to the simulator a cut depends on nothing", "internal/engine/simulate/move.go", []edit{{
		"\t\td.footprint.touch(m.region.Object(), engine.Writes)\n", "",
	}}},
	{"to the simulator calls depend on nothing", "internal/engine/simulate/move.go", []edit{{
		"\t\td.footprint.touch(engine.World, engine.Writes)\n", "",
	}}},
	{"to the simulator nobody sees in which order an output gets something", "internal/engine/simulate/footprint.go", []edit{{
		"\t\tseen = engine.Sends\n", "\t\tseen = engine.Adds\n",
	}}},
	{"to the simulator who looks at a value depends on nothing", "internal/engine/port/port.go", []edit{{
		"\terr := out.loc.Turn(t)\n\tout.op.Touch(0, engine.Reads)\n", "\terr := out.loc.Turn(t)\n",
	}}},
	{"to the simulator records of one key depend on nothing", "internal/engine/observe.go", []edit{{
		"\t\tturns.Touch(op.Part(k), Writes)\n", "",
	}}},
	{"the simulator moves what has no order in order", "internal/engine/port/exchange.go", []edit{{
		"\tif op.Shuffled && all == nil {\n\t\tm.in.Shared(false)\n\t}\n\tarrives(op, &n.Head, m.in)\n", "\tarrives(op, &n.Head, m.in)\n",
	}}},
	{"a checkpoint forgets what was found for earlier places", "dataflow/sim/checkpoint.go", []edit{{
		"\t\tb.pending = append(b.pending, all)\n", "\t\t_ = all\n",
	}}},
	{"a checkpoint forgets what sleeps", "dataflow/sim/checkpoint.go", []edit{{
		"\t\t\tb.behind.asleep = append(b.behind.asleep, asleep{a.Name, &a.Effect})\n", "\t\t\t_ = a\n",
	}}},
	{"the simulator does not permute one input", "internal/engine/order.go", []edit{{
		"op.loose.waits = op.alone() &&", "op.loose.waits = op.Index < 0 && op.alone() &&",
	}}},
	{"to the simulator the order between keys is that within a key", "internal/engine/order.go", []edit{{
		"\treturn all || keys\n", "\treturn all || keys || len(op.Ins) > 0\n",
	}}},
	{"the simulator has elements of a recorded run wait", "internal/engine/simulate/simulate.go", []edit{{
		"\t\t\tif d.recording == nil {\n\t\t\t\ts.SettleLoose()\n", "\t\t\tif d != nil {\n\t\t\t\ts.SettleLoose()\n",
	}}},
	{"to the simulator an element may wait behind a cut that shows it", "internal/engine/order.go", []edit{{
		"\t\t\tif y != op && !slices.Contains(before, y) {\n\t\t\t\treturn false\n", "\t\t\tif y == nil {\n\t\t\t\treturn false\n",
	}}},
	{"a search does not try what a move disables", "dataflow/sim/descent.go", []edit{{
		"\t\t\tif i != d.path[last].index && !still[n] {\n", "\t\t\tif i != d.path[last].index && !still[n] && p == nil {\n",
	}}},
	{"to a search what sleeps does not wake", "dataflow/sim/descent.go", []edit{{
		"return a.name == e.Name || a.effect.Conflicts(&e)", "return a.name == e.Name",
	}}},
	{"a worker begins a branch before it is known what sleeps there", "dataflow/sim/tree.go", []edit{{
		"\t\tif c.state == waiting && !known {\n\t\t\tbreak // those behind it sleep in what it does\n\t\t}\n", "",
	}}},
	{"what a worker finds late is tried early", "dataflow/sim/tree.go", []edit{{
		"\t\tif p.branches[p.next] != b {\n", "\t\tif p.next == len(p.branches) {\n",
	}}},
	{"the failure that a worker finds first is reported", "dataflow/sim/search.go", []edit{{
		"\t\tcase s.busy > 0 && (passed || b == nil || b.conclusion == nil):\n", "\t\tcase s.busy > 0 && (b == nil || b.conclusion == nil):\n",
	}}},
	{"a search tries the other order of two moves only if they are neighbours", "dataflow/sim/races.go", []edit{{
		"\tif !e.before.meets(between) {\n", "\tif len(heads) > 0 {\n\t\treturn\n\t}\n\tif !e.before.meets(between) {\n",
	}}},
	{"a second answer to a durable call counts", "internal/engine/port/async_log.go", []edit{{
		"	if !a.pending.Delete(k, h) {\n		return false, nil", "	if a.pending.Delete(k, h); in == nil {\n		return false, nil",
	}}},
	{"calls begin before the step that asks for them is durable", "dataflow/durable/owner.go", []edit{{
		"	if err := o.commit(ctx, &s); err != nil {\n		return err\n	}\n	o.unsaved", "	o.leader.Release()\n	if err := o.commit(ctx, &s); err != nil {\n		return err\n	}\n	o.unsaved",
	}}},
	{"the clock of a durable flow goes back with that of the system", "dataflow/durable/clock.go", []edit{{
		"o.last.now+int64(min(max(passed, 0), o.opts.MaxGap))", "is",
	}}},
	{"the answer to a choice may be below the first one", "agentproto/detour.go", []edit{{
		" || e.Selected < 0 || ", " || ",
	}}},
	{"the lifetime after a default does not count from when it was due", "agentproto/machine.go", []edit{{
		"open.Choice.Default, nil, open.Since.Add(open.Timeout), open.Lifetime)", "open.Choice.Default, nil, time.Time{}, open.Lifetime)",
	}}},
	{"a token is used for scopes that it is not good for", "agentproto/toolserver/oauth.go", []edit{{
		"t.Usable(refused) && authorize.Covers(t.Scopes, n.scopes)", "t.Usable(refused)",
	}}},
	{"an authorization for other scopes is gone on with after a restart", "agentproto/internal/authorize/ask.go", []edit{{
		" && slices.Equal(last.Need, w.Ask.Need)", "",
	}}},
	{"a token ends the wait for more than it is good for", "agentproto/internal/authorize/ask.go", []edit{{
		"a.Phase == Open && Covers(o.Scopes, a.Need)", "a.Phase == Open",
	}}},
	{"the claim that a keyed fold is commutative is not checked", "keyedstream/aggregate.go", []edit{{
		"operators.KFold(n, op, init, claims.Commutative(op, step))", "operators.KFold(n, op, init, step)",
	}}},
	{"to the simulator the order in which keys are forgotten depends on nothing", "internal/engine/operators/completed.go", []edit{{
		"		in.Op.MixesKeys() // which", "		// which",
	}}},
	{"to the simulator timers depend on nothing", "internal/engine/simulate/time.go", []edit{{
		"	d.touchClock(s)\n	now :=", "	now :=",
	}}},
	{"to a search it does not matter how much time passes", "dataflow/sim/descent.go", []edit{{
		"	found = append(found, d.pass()...)\n", "",
	}}},
	{"a search looks only at what timers do themselves", "dataflow/sim/moments.go", []edit{{
		"(i == at || e.before.has(at)) && e.Conf", "i == at && e.Conf",
	}}},
	{"a search has timers fire that are due after others", "dataflow/sim/moments.go", []edit{{
		"		x.first(&m.so, left)\n", "",
	}}},
	{"a search gives two timers clocks of their own although one step sets both", "internal/engine/simulate/time.go", []edit{{
		"			d.footprint.shared.Share(d.known.Clocks, one, t.Object)\n", "",
	}}},
	{"a search gives timers clocks of their own although somebody sees both fire", "dataflow/sim/clocks.go", []edit{{
		"				for _, f := range before {\n					one(f, o)\n				}\n", "",
	}}},
	{"a search finds out too late that a caller compares two timers", "dataflow/sim/clocks.go", []edit{{
		"else if len(before) > 0 &&", "else if false &&",
	}}},
	{"a search gives timers clocks of their own although a function compares times", "internal/engine/simulate/footprint.go", []edit{{
		"			t.shared.Share(d.known.Clocks, o, o)\n", "",
	}}},
	{"what inspects elements without order in a slice is seen to get them in one", "dataflow/stream.go", []edit{{
		"\"dataflow.Inspect\", f)\n	op.Shuffled = unordered[O]()\n", "\"dataflow.Inspect\", f)\n",
	}}},
	{"a call that is at a point does not count as one that runs", "internal/engine/port/async.go", []edit{{
		"	a.simulated.started++\n	defer func() { a.simulated.started-- }()\n", "",
	}}},
	{"a call that is at a point goes on after a crash", "internal/engine/simulate/fault_crash.go", []edit{{
		"	c.stop()\n	s.Calls.Add(-1) // as its answer would\n	d.suspended = slices.DeleteFunc(d.suspended, func(x *suspendedCall) bool { return x == c })\n", "	s.Calls.Add(-1)\n",
	}}},
	{"a search does not try a crash while a call is at a point", "dataflow/sim/races.go", []edit{{
		"ok && p.events[j].Name.Kind == simulate.Resumes", "ok && false",
	}}},
	{"a simulated location goes on although its output is full", "internal/engine/simulate/full.go", []edit{{
		"	d.bounds.stopped[s.Number] = true\n", "",
	}}},
	{"a simulated location stops in the middle of a step whose output is full", "internal/engine/simulate/full.go", []edit{{
		"d.level == Types && d.choose.Choose(2) == 1", "false",
	}}},
	{"to the simulator an interval depends on nothing that is sent", "internal/engine/simulate/time.go", []edit{{
		"		d.footprint.touch(in.Loc.Ticks(), engine.Adds)\n", "",
	}}},
	{"to the simulator a look at what has changed depends on nothing", "internal/engine/operators/index.go", []edit{{
		"				op.TouchKey(k, engine.Writes)\n", "",
	}}},
	{"a search does not see what makes the difference whether an output is full", "internal/engine/simulate/footprint.go", []edit{{
		"			t.Missed.See(o)\n		}\n		return\n	case o.IsCapacity():", "		}\n		return\n	case o.IsCapacity():",
	}}},
	{"a search does not try a client before another that takes what it waits for", "dataflow/sim/races.go", []edit{{
		"		found = append(found, d.waits(p, i)...)\n", "",
	}}},
	{"a search does not try a client before another that takes something else then", "dataflow/sim/races.go", []edit{{
		"		found = append(found, d.competes(p, i)...) // before what has sent what it takes in this execution\n", "",
	}}},
	{"a search forgets what the last move of an execution that is known made impossible", "dataflow/sim/descent.go", []edit{{
		"		if forced {\n			d.left = nil\n		}\n		see(d.left)\n", "		if forced || !d.blocked {\n			see(nil)\n		}\n",
	}}},
	{"to the simulator two records are one whose key and value change places", "internal/engine/port/lanes.go", []edit{{
		"engine.ChainDigest(engine.ChainDigest(0, in.lane(in.buf.K[i]).id), digest", "engine.ChainDigest(in.lane(in.buf.K[i]).id, digest",
	}}},
	{"a schedule that is run again does not know which timers have one clock", "dataflow/sim/choices.go", []edit{{
		"		if n := from.choose(len(c.made), math.MaxInt); from.known == nil {\n			usual = n\n		}\n",
		"		from.choose(len(c.made), math.MaxInt)\n",
	}}},
	{"to the simulator what sets a timer depends on nothing", "internal/engine/fire.go", []edit{{
		"	if op.clocked {", "	if false {",
	}}},
	{"a message that is lost comes", "internal/engine/simulate/move.go", []edit{
		{"again); what != lost {", "again); true {"},
		{"return what != lost && what != delayed", "return what != delayed"},
	}},
	{"a lost message is not counted as a fault", "internal/engine/simulate/faults.go", []edit{{
		"			f.left.Lose--\n", "",
	}}},
	{"to the simulator it does not matter when a location is isolated", "internal/engine/simulate/faults.go", []edit{{
		"			d.footprint.touch(of(end, wire), engine.Reads)\n", "",
	}}},
	{"to the simulator it does not matter when a location halts", "internal/engine/simulate/faults.go", []edit{{
		"		d.footprint.touch(of(s, life), engine.Reads)\n", "",
	}}},
	{"a call is not made again after a crash", "internal/engine/simulate/fault_crash.go", []edit{{
		"		c.again()\n", "",
	}}},
	{"to the simulator a crash depends on nothing", "internal/engine/simulate/fault_crash.go", []edit{{
		"	d.footprint.touch(of(s, made), engine.Writes)\n", "",
	}}},
	{"a call is made again although its answer was kept", "internal/engine/simulate/fault_crash.go", []edit{{
		"		at.calls = slices.Delete(at.calls, i, i+1)\n	}\n}\n\n// crash", "	}\n}\n\n// crash",
	}}},
	{"records of one step are told apart nowhere", "internal/engine/simulate/together.go", []edit{{
		"		if j.tells(e, f) {", "		if j.tells(e, f) && j == nil {",
	}}},
	{"to the simulator it does not matter when a record is sent that may be taken with another one", "internal/engine/simulate/footprint.go", []edit{{
		"	d.inGroup(lane)\n", "",
	}}},
	{"records that get somewhere in one way count as coming in two", "internal/engine/simulate/together.go", []edit{{
		"ways(op, e, f) > 1 && ", "ways(op, e, f) > 0 && ",
	}}},
}
