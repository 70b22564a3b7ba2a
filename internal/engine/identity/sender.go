package identity

import (
	"fmt"
	"slices"
	"strings"
)

// A process that only sends to a history has a program as well, but that program is never started on the history. So what it
// sends is compared with what the history takes, operator by operator.

// Sent returns how a sender describes one of its operators to a history whose numbers it does not know: the identity, and on the
// lines below it what the operator takes.
func (o *Operator) Sent() string {
	sender := Operator{Identity: o.Identity, Affine: o.Affine, Takes: o.Takes, Types: o.Types}
	var b strings.Builder
	sender.write(&b)
	return b.String()
}

// ParseSent is the inverse of [Operator.Sent].
func ParseSent(text string) (*Operator, error) {
	all, err := Parse("location \n" + text)
	if err != nil || len(all) != 1 || len(all[0].Operators) != 1 {
		return nil, fmt.Errorf("%.60q says of no operator what it takes", text)
	}
	return &all[0].Operators[0], nil
}

// Misfit returns why o, as it is in a history, cannot take what a sender sends to it, or "". A field that only one of the two has
// is left out or zero, as between two versions of a program one of which has added the field, but not in a key that would be in
// another partition. If each of the two has fields of a struct that the other lacks, a field was probably renamed, and its value
// would be lost silently.
func (o *Operator) Misfit(sender *Operator) string {
	if sender.Affine != o.Affine {
		return fmt.Sprintf("the keys of %s are placed by %s, and this program places them by %s", o.Identity, placedBy(o), placedBy(sender))
	}
	if !slices.Equal(sender.Takes, o.Takes) {
		return fmt.Sprintf("%s takes %s, and this program sends %s", o.Identity, list(o.Takes), list(sender.Takes))
	}
	for _, x := range changedStructs(o.Types, sender.Types) {
		name, takes, sent := x.name, x.before, x.now
		if why := sender.placed.moves(name, takes, sent); why != "" && sender.Divided {
			return fmt.Sprintf("the keys of %s are placed by their encoding, and for this program %s", o.Identity, why)
		}
		if why := o.placed.moves(name, sent, takes); why != "" && o.Divided {
			return fmt.Sprintf("the keys of %s are placed by their encoding, and compared with this program, %s", o.Identity, why)
		}
		var missing, unknown []string
		for f, typ := range ordered(takes) {
			switch is, ok := sent[f]; {
			case !ok:
				missing = append(missing, f)
			case is != typ:
				return fmt.Sprintf("%s takes field %s of %s as %s, and this program sends it as %s", o.Identity, f, name, typ, is)
			}
		}
		for f := range ordered(sent) {
			if _, ok := takes[f]; !ok {
				unknown = append(unknown, f)
			}
		}
		if len(missing) > 0 && len(unknown) > 0 {
			return fmt.Sprintf("%s takes %s with %s, and this program sends it with %s", o.Identity, name, strings.Join(missing, ", "), strings.Join(unknown, ", "))
		}
	}
	return ""
}
