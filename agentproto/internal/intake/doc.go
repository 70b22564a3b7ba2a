// Package intake limits one runtime's use of a tool server: how often it may send notifications,
// how often each has an effect, and how many messages are on their way to it.
package intake
