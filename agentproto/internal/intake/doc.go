// Package intake limits one runtime's use of a tool server: how often it may send notifications,
// and how often each has an effect.
package intake
