package durable

import (
	"fmt"
	"strconv"
	"strings"
)

// A Migration is a change of program on its way: the operators that the history was made
// by, and those of the program that goes on with it. [Options].Migrate says for each
// old operator which new one has its state, with [Migration.Keep]; the state of others
// is forgotten, and new operators begin with nothing.
//
// Each partition is migrated by itself, so the function is called for each of them,
// never at the same time. What
// waits to be sent to another location is part of the state of its Send, which has an
// operator at both ends.
//
// A record that waits is for the operator with its number, so inputs and both ends of a
// Send have to keep theirs: build them first, and new ones after them.
type Migration struct {
	Location string // each has operators of its own; its name in the program that goes on
	Was, Is  []Operator

	kept map[int32]int32
}

// An Operator is one operator of a program as its history knows it.
type Operator struct {
	Number int
	Name   string // package and function, such as "keyedstream.Fold"
	Shape  string // what it reads and remembers
}

// Keep gives the state of the old operator number was to the new one number is.
func (m *Migration) Keep(was, is int) { m.kept[int32(was)] = int32(is) }

// KeepAll gives the state of each old operator to the new one with the same number, if
// that remembers the same. It is what fits a program with operators added at the end.
func (m *Migration) KeepAll() {
	for i, o := range m.Was {
		if i < len(m.Is) && o.Name == m.Is[i].Name && memory(o) == memory(m.Is[i]) {
			m.Keep(i, i)
		}
	}
}

// memory returns what is in a shape besides the operators read.
func memory(o Operator) string {
	var all []string
	for _, f := range strings.Fields(o.Shape) {
		if _, err := strconv.Atoi(f); err != nil {
			all = append(all, f)
		}
	}
	return strings.Join(all, " ")
}

// migration returns which operator has whose state; nil if nothing has changed.
func (c *core) migration(was, is string) (func(int32) (int32, bool), error) {
	if was == is {
		return nil, nil
	}
	if c.opts.Migrate == nil {
		return nil, changedError(was, is)
	}
	location, _, _ := strings.Cut(is, "\n")
	m := &Migration{Location: location, Was: operators(was), Is: operators(is), kept: make(map[int32]int32)}
	c.migrating.Lock()
	defer c.migrating.Unlock()
	if err := c.opts.Migrate(m); err != nil {
		return nil, fmt.Errorf("durable: Migrate: %w", err)
	}
	return func(op int32) (int32, bool) {
		is, ok := m.kept[op]
		return is, ok
	}, nil
}

func operators(shape string) []Operator {
	lines := strings.Split(strings.TrimSpace(shape), "\n")
	var all []Operator
	for _, l := range lines[1:] {
		number, rest, _ := strings.Cut(l, " ")
		n, _ := strconv.Atoi(number)
		name, rest, _ := strings.Cut(rest, " ")
		all = append(all, Operator{n, name, rest})
	}
	return all
}
