package main

// mutations are the changes that have to be noticed.
var mutations = []mutation{
	{"First keeps the last value of a step", "internal/engine/aggregate.go", []edit{{
		"			c.k[j], c.v[j], c.h[j] = b.K[i], vs[i], hs[i]\n",
		"			c.k[j], c.v[j], c.h[j] = b.K[i], vs[i], hs[i]\n			for l, k := range b.K {\n				if k == b.K[i] {\n					c.v[j] = vs[l]\n				}\n			}\n",
	}}},
	{"FoldEarlyStop forgets that a key is done", "internal/engine/aggregate.go", []edit{{
		"*s = early[A]{done: true}", "*s = early[A]{acc: init()}",
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
		"				current, given = after, false\n", "				_, given = after, false\n",
	}}},
	{"state that is kept shows in the same run", "internal/engine/slice.go", []edit{{
		"			after, given = v, true\n", "			after, given = v, true\n			current = v\n",
	}}},
	{"outputs are published before the cut", "internal/engine/loop.go", []edit{{
		"	for _, r := range s.regions {\n		if r.news {",
		"	s.publish()\n	for _, r := range s.regions {\n		if r.news {",
	}}},
	{"a step is published one port after another", "internal/engine/publish.go", []edit{{
		"	if len(s.ports) == 1 {\n		s.ports[0].release()\n	} else {",
		"	if len(s.ports) > 0 {\n		for _, p := range s.ports {\n			p.release()\n		}\n	} else {",
	}}},
	{"calls begin and messages leave before ports show the step", "internal/engine/publish.go", []edit{
		{"	if len(s.ports) == 1 {", "	for _, out := range s.later {\n		out.release()\n	}\n	if len(s.ports) == 1 {"},
		{"	s.ports = s.ports[:0]\n	for _, out := range s.later {\n		out.release()\n	}\n", "	s.ports = s.ports[:0]\n"},
	}},
	{"Join forgets all but the first value of a key", "internal/engine/keyed_join.go", []edit{{
		"			mine.add(k, hs[i], b.V[i])\n", "			if mine.first(k, hs[i]) == 0 {\n				mine.add(k, hs[i], b.V[i])\n			}\n",
	}}},
	{"a threshold has to be passed, not reached", "keyedsingleton/threshold.go", []edit{{
		"return v >= threshold", "return v > threshold",
	}}},
	{"a passive snapshot runs its slice", "internal/engine/keyed_slice.go", []edit{{
		"	if !t.passive {\n		t.region.news = true\n	}", "	t.region.news = true",
	}}},
	{"Limit starts again with each batch", "internal/engine/stream_scan.go", []edit{{
		"			left -= len(batch)\n", "",
	}}},
}
