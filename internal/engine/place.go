package engine

import "reflect"

// A Place is what a location of a program holds: where collections are made.
type Place struct {
	Type   reflect.Type // of the location
	Site   *Site
	Region *Region // of a slice, else nil
}

// PlaceOf returns the place that a location of type at holds. It panics unless the
// location was made as one of this type: a struct that embeds a location converts to
// another one that does, so the type alone proves nothing.
func PlaceOf(held any, at reflect.Type, op string) Place {
	p, ok := held.(*Place)
	switch {
	case !ok:
		Misuse(op, "the location is a %v: give it as the type that dataflow.At was called with", at)
	case p.Site == nil:
		Misuse(op, "the location is a zero value: make it with dataflow.At")
	case p.Type != at:
		Misuse(op, "the location is a %v that was made as a %v: call dataflow.At for each location", at, p.Type)
	}
	return *p
}

// Outside returns the site of a place that is in no slice, for what has to be outside
// as why says.
func (p Place) Outside(op, why string) *Site {
	if p.Region != nil {
		Misuse(op, why, p.Region)
	}
	return p.Site
}

// Input returns the site at which an input may be made.
func (p Place) Input(op string) *Site {
	return p.Outside(op, "an input comes from outside and cannot be inside %s")
}

// Destination returns the site to which something may be sent.
func (p Place) Destination(op string) *Site {
	return p.Outside(op, "what is sent comes later and cannot be inside %s: send it to the location and let it in from there")
}
