package main

// mutations are the changes that have to be noticed.
var mutations = []mutation{
	{"First keeps the last value of a step", "internal/engine/aggregate.go", []edit{{
		"			c.k[j], c.v[j], c.h[j] = b.K[i], vs[i], hs[i]\n",
		"			c.k[j], c.v[j], c.h[j] = b.K[i], vs[i], hs[i]\n			for l, k := range b.K {\n				if k == b.K[i] {\n					c.v[j] = vs[l]\n				}\n			}\n",
	}}},
	{"FoldEarlyStop forgets that a key is done", "internal/engine/aggregate.go", []edit{{
		"			m++\n			*s = early[A]{done: true}", "			m++\n			*s = early[A]{acc: init()}",
	}, {
		"		var none A\n		s.acc, s.done = none, true\n", "		*s = early[A]{acc: init()}\n",
	}}},
	{"a batch delivers again what it delivered", "internal/engine/slice.go", []edit{{
		"		clear(fresh)\n		fresh = fresh[:0]\n", "		fresh = fresh[:min(1, len(fresh))]\n",
	}}},
	{"a snapshot is one run old", "internal/engine/slice.go", []edit{{
		"	r.atPre(func() {\n		if c.set {\n			out.Set(c.value)\n		}\n	})",
		"	late, any := c.value, false\n	r.atPre(func() {\n		if any {\n			out.Set(late)\n		} else if c.set {\n			out.Set(c.value)\n		}\n		late, any = c.value, c.set\n	})",
	}}},
	{"slices run in the order in which they were made", "internal/engine/site.go", []edit{{
		"	s.regions = topological(s.regions)\n", "",
	}}},
	{"Unique forgets after a while", "internal/engine/stream_scan.go", []edit{{
		"		seen.Touch(hs)\n", "		seen.Touch(hs)\n		if seen.Len() > 2 {\n			seen.Clear()\n		}\n",
	}}},
	{"KeyCount does not see removals", "internal/engine/aggregate.go", []edit{{
		"					present.Delete(k, hs[i])\n", "					continue\n",
	}}},
	{"an entry stays although a filter drops its new value", "internal/engine/keyed.go", []edit{{
		"c.k[m], c.v[m], gone[m] = k, u, !ok", "c.k[m], c.v[m], gone[m] = k, u, !ok && b.Gone != nil && b.Gone[i]",
	}}},
	{"timers fire in the order in which they were set", "internal/engine/timers.go", []edit{
		{"	a.fired = func(slot uint32) {", "	last := int64(0)\n	a.fired = func(slot uint32) {"},
		{"			at := now + int64(max(d, 0))\n", "			at := max(now+int64(max(d, 0)), last)\n			last = at\n"},
	}},
	{"timers fire operator by operator", "internal/engine/fire.go", []edit{{
		"	for {\n		at, ok := s.deadline()\n",
		"	for i := range s.timers {\n		s.now = now\n		s.timers[i].expire(now)\n	}\n	for {\n		at, ok := s.deadline()\n",
	}}},
	{"a timer counts from when the one before it was fired", "internal/engine/fire.go", []edit{{
		"				s.now = at\n", "				s.now = now\n",
	}}},
	{"timers of one operator overtake those of another", "internal/engine/fire.go", []edit{{
		"	return max(at, now)\n", "	return max(at, until)\n",
	}, {
		"	for j := range s.timers {\n		if j == i {", "	until := now\n	for j := range s.timers {\n		if j == i {",
	}}},
	{"everybody who takes a key gets it", "internal/engine/koutlet.go", []edit{{
		"		if w.take && taken {", "		if false {",
	}}},
	{"a value that comes as its taker gives up is lost", "internal/engine/koutlet.go", []edit{{
		"	if w.given { // in this moment", "	if false { // in this moment",
	}}},
	{"a second Put of a key is accepted", "internal/engine/kinlet.go", []edit{
		{"		if (s.queued >= s.g.set.Queue || in.refuse() != nil) && in.seen.Get(k, h) != nil {", "		if false {"},
		{"if _, added := in.seen.Put(k, h); !added {", "if _, added := in.seen.Put(k, h); !added && false {"},
	}},
	{"state is not carried to the next run", "internal/engine/slice.go", []edit{{
		"				*current, given = after, false\n", "				_, given = after, false\n",
	}}},
	{"state that is kept shows in the same run", "internal/engine/slice.go", []edit{{
		"			after, given = v, true\n", "			after, given = v, true\n			*current = v\n",
	}}},
	{"outputs are published before the cut", "internal/engine/step.go", []edit{{
		"	for _, r := range s.regions {\n		if r.news && c.has(r) {",
		"	s.publish()\n	for _, r := range s.regions {\n		if r.news && c.has(r) {",
	}}},
	{"a step is published one port after another", "internal/engine/publish.go", []edit{{
		"	if len(s.ports) == 1 {\n		s.ports[0].release()\n	} else {",
		"	if len(s.ports) > 0 {\n		for _, p := range s.ports {\n			p.release()\n		}\n	} else {",
	}}},
	{"calls begin and messages leave before ports show the step", "internal/engine/publish.go", []edit{
		{"	if len(s.ports) == 1 {", "	for _, x := range s.later {\n		s.g.driver.deliver(x)\n	}\n	if len(s.ports) == 1 {"},
		{"	s.ports = s.ports[:0]\n	for _, x := range s.later {\n		s.g.driver.deliver(x)\n	}\n", "	s.ports = s.ports[:0]\n"},
	}},
	{"Join forgets all but the first value of a key", "internal/engine/keyed_join.go", []edit{{
		"			mine.add(k, hs[i], b.V[i])\n", "			if mine.first(k, hs[i]) == 0 {\n				mine.add(k, hs[i], b.V[i])\n			}\n",
	}}},
	{"a threshold has to be passed, not reached", "keyedsingleton/threshold.go", []edit{{
		"return v >= threshold", "return v > threshold",
	}}},
	{"a passive snapshot runs its slice", "internal/engine/trigger.go", []edit{{
		"	if !t.passive {\n		t.region.news = true\n	}", "	t.region.news = true",
	}}},
	{"Limit starts again with each batch", "internal/engine/stream_scan.go", []edit{{
		"			*left -= len(batch)\n", "",
	}}},
	{"tables are not saved", "internal/engine/state.go", []edit{{
		"	m.add(t.Clear, func(op *Op) state { return tableState[K, V]{&t, key(op), value(op)} })\n",
		"	if m.region != nil {\n		m.add(t.Clear, nil)\n	}\n",
	}}},
	{"tables are not cleared at the end of a run", "internal/engine/state.go", []edit{{
		"	m.add(t.Clear, func(op *Op) state { return tableState",
		"	m.add(func() {}, func(op *Op) state { return tableState",
	}}},
	{"variables are not saved", "internal/engine/state.go", []edit{{
		"	m.add(func() { *p = init }, func(op *Op) state {\n",
		"	if m.region == nil {\n		return p\n	}\n	m.add(func() { *p = init }, func(op *Op) state {\n",
	}}},
	{"variables keep their value after a run", "internal/engine/state.go", []edit{{
		"	m.add(func() { *p = init }, func(op *Op) state {\n",
		"	m.add(func() {}, func(op *Op) state {\n",
	}}},
	{"what was begun in a run goes on in the next", "internal/engine/state.go", []edit{{
		"	m.add(func() { *b = begun[T]{} }, func(op *Op) state {\n",
		"	m.add(func() {}, func(op *Op) state {\n",
	}}},
	{"a view has the entries of the run before", "internal/engine/state.go", []edit{{
		"	m.add(func() { *v = *cow.NewMap[K, V]() }, func(op *Op) state {\n",
		"	m.add(func() {}, func(op *Op) state {\n",
	}}},
	{"the values of each key are not saved", "internal/engine/state_lists.go", []edit{{
		"	m.add(l.clear, func(op *Op) state { return listsState[K, V]{l, plain[K](op), plain[V](op)} })\n",
		"	if m.region != nil {\n		m.add(l.clear, nil)\n	}\n",
	}}},
	{"pending timers are not saved", "internal/engine/state_timers.go", []edit{{
		"	m.add(p.clear, func(op *Op) state { return timersState[K, V]{p, plain[K](op), plain[V](op)} })\n",
		"	_ = m\n",
	}}},
	{"when entries are forgotten is not saved", "internal/engine/state_timers.go", []edit{{
		"	m.add(func() { *idx = *timer.NewFIFO() }, func(*Op) state { return deadlinesState[K, V]{idx, table} })\n",
		"",
	}}},
	{"numbers of completed keys are not saved", "internal/engine/state_completed.go", []edit{{
		"	m.add(set.Clear, func(op *Op) state { return sequenceState[C]{set, plain[C](op)} })\n",
		"	if m.region != nil {\n		m.add(set.Clear, nil)\n	}\n",
	}}},
	{"completed keys that are forgotten later are not saved", "internal/engine/state_completed.go", []edit{{
		"	for _, t := range generations(set) {\n",
		"	for i, t := range generations(set) {\n		if i >= 0 {\n			continue\n		}\n",
	}}},
	{"a step of several inputs leaves its cut out", "internal/engine/driver_live.go", []edit{{
		"	p.Take = l.take(p.Take)\n", "	if p.Take, p.Cut = l.take(p.Take), CutAll; len(p.Take) > 1 {\n		p.Cut = CutNone\n	}\n",
	}}},
	{"a record that comes while its location waits for a reader is lost", "internal/engine/inlet.go", []edit{{
		"	if how == leave {\n		in.buf = append(in.buf, x)\n		in.accepted(in, 1)\n",
		"	if how == leave && in.site.parked {\n		in.site.mu.Unlock()\n		return nil\n	}\n	if how == leave {\n		in.buf = append(in.buf, x)\n		in.accepted(in, 1)\n",
	}}},
	{"the simulator takes from the first lane only", "internal/engine/driver_simulated.go", []edit{{
		"			all = append(all, lane{at: at, deadline: deadline})\n		}\n	}\n	return all\n",
		"			all = append(all, lane{at: at, deadline: deadline})\n		}\n	}\n	return all[:min(1, len(all))]\n",
	}}},
}
