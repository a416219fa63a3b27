//! `ebb serve`: what it shows, and what it keeps from those who may not see it.

mod access;
mod pages;
mod serving;
