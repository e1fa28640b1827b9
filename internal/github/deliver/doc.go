// Package deliver hands finished work over for review, and reads the outcome of its pull request.
package deliver
